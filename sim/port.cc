// How packets leave a port: the lazy and the explicit mode of a link (see link.h).

#include <bit>

#include "core/base/assert.h"
#include "sim/partition.h"

namespace mroce::sim {
namespace {

constexpr uint32_t kPauseQueue = kClasses;
constexpr uint32_t kNoClass = UINT32_MAX;

uint8_t class_of(const Packet& packet) {
  return packet.kind == PacketKind::kPause ? static_cast<uint8_t>(kPauseQueue) : packet.priority;
}

}  // namespace

void Partition::send(uint32_t id, Packet* packet) {
  Link& link = links_[id];
  if (link.is(Link::kExplicit)) return send_explicit(id, link, packet);
  if (link.last_class != class_of(*packet) && link.busy_until > now_ && classes_conflict(link, *packet)) {
    make_explicit(id, link);
    return send_explicit(id, link, packet);
  }
  send_lazy(id, link, packet);
}

// A packet of another class may only join the FIFO if none in it waits.
bool Partition::classes_conflict(Link& link, const Packet& packet) {
  MROCE_ASSERT(class_of(packet) != link.last_class);
  link.settle(now_);
  return link.cursor != nullptr && link.cursor->next != nullptr;
}

void Partition::append(uint32_t id, Link& link, Packet* packet, SimTime start) {
  link.busy_until = start + link.time_of(packet->bytes);
  link.last_class = class_of(*packet);
  packet->at = link.busy_until + link.delay;
  packet->next = nullptr;
  if (link.head == nullptr) {
    link.head = packet;
    if (!link.is(Link::kCrossing)) {
      queue_.push(packet->at, event_key(EventKind::kArrival, id), id);
    } else if (!link.is(Link::kListed)) {
      link.set(Link::kListed);
      crossing_.push_back(id);
    }
  } else {
    link.tail->next = packet;
    link.tail->next_at = packet->at;
  }
  link.tail = packet;
}

void Partition::send_lazy(uint32_t id, Link& link, Packet* packet) {
  append(id, link, packet, std::max(link.busy_until, now_));
  link.queued += packet->bytes;
  if (link.cursor == nullptr) link.cursor = packet;
  link.max_backlog = std::max(link.max_backlog, link.busy_until - now_);
}

void Partition::send_explicit(uint32_t id, Link& link, Packet* packet) {
  ClassQueues& queues = *link.classes;
  const uint32_t c = class_of(*packet);
  queues.waiting[c].push(packet);
  queues.bytes[c] += packet->bytes;
  queues.used |= 1U << c;
  link.queued += packet->bytes;
  link.max_backlog = std::max(link.max_backlog, link.time_of(link.queued));
  if (queues.sending == nullptr) start_next(id, link);
}

void Partition::make_explicit(uint32_t id, Link& link) {
  if (link.classes == nullptr) link.classes = std::make_unique<ClassQueues>();
  ClassQueues& queues = *link.classes;
  MROCE_ASSERT(queues.used == 0 && queues.sending == nullptr);
  link.settle(now_);
  link.set(Link::kExplicit);
  Packet* const current = link.cursor;
  link.cursor = nullptr;
  if (current == nullptr) return;
  // Nothing behind `current` has started, and all of it is of one class.
  if (current->next != nullptr) {
    queues.waiting[link.last_class] = {current->next, link.tail};
    queues.bytes[link.last_class] = link.queued - current->bytes;
    queues.used |= 1U << link.last_class;
    current->next = nullptr;
    link.tail = current;
  }
  queues.sending = current;
  link.busy_until = current->at - link.delay;
  queue_.push(link.busy_until, event_key(EventKind::kSent, id), 0);
}

void Partition::make_lazy(Link& link) {
  ClassQueues& queues = *link.classes;
  link.set(Link::kExplicit, false);
  link.cursor = queues.sending;  // the event of its end finds the link lazy, and does nothing
  queues.sending = nullptr;
}

uint32_t Partition::choose_class(Link& link) {
  ClassQueues& queues = *link.classes;
  if ((queues.used >> kPauseQueue & 1) != 0) return kPauseQueue;
  uint32_t ready = queues.used & ~queues.paused;
  uint32_t weighted = 0;
  for (uint32_t left = ready; left != 0; left &= left - 1) {
    const auto c = static_cast<uint32_t>(std::countr_zero(left));
    if (fabric_.config.credit.buffer_bytes != 0 && queues.credit[c] < queues.waiting[c].head->bytes) {
      ready &= ~(1U << c);
    } else if (fabric_.config.weight[c] != 0) {
      weighted |= 1U << c;
    }
  }
  if (const uint32_t strict = ready & ~weighted; strict != 0) {
    return static_cast<uint32_t>(std::bit_width(strict)) - 1;
  }
  if (weighted == 0) return kNoClass;
  // Deficit round robin (Shreedhar and Varghese 1995).
  for (;;) {
    const uint32_t c = queues.turn;
    if ((weighted >> c & 1) == 0) {
      queues.deficit[c] = 0;
    } else if (queues.deficit[c] >= queues.waiting[c].head->bytes) {
      queues.deficit[c] -= queues.waiting[c].head->bytes;
      return c;
    }
    queues.turn = (c + 1) % kClasses;
    if ((weighted >> queues.turn & 1) != 0) {
      queues.deficit[queues.turn] +=
          static_cast<int64_t>(fabric_.config.weight[queues.turn]) * fabric_.full_packet;
    }
  }
}

void Partition::start_next(uint32_t id, Link& link) {
  ClassQueues& queues = *link.classes;
  const uint32_t c = queues.used == 0 ? kNoClass : choose_class(link);
  if (c != kNoClass) {
    Packet* const packet = queues.waiting[c].pop();
    queues.bytes[c] -= packet->bytes;
    if (queues.waiting[c].head == nullptr) queues.used &= ~(1U << c);
    if (c != kPauseQueue) queues.credit[c] -= packet->bytes;
    append(id, link, packet, now_);
    queues.sending = packet;
    queue_.push(link.busy_until, event_key(EventKind::kSent, id), 0);
  }
  if (queues.used == 0 && queues.paused == 0 && !link.is(Link::kSticky)) make_lazy(link);
}

void Partition::on_sent(uint32_t id) {
  Link& link = links_[id];
  // Stale if the link became lazy since; perhaps it is explicit again, with an event for another packet.
  if (link.is(Link::kExplicit) && link.classes->sending != nullptr && link.busy_until == now_) {
    const Packet& packet = *link.classes->sending;
    link.classes->sending = nullptr;
    link.queued -= packet.bytes;
    if (id >= fabric_.host_links && fabric_.config.accounts()) departed(id, packet);
    start_next(id, link);
  }
  if (id < fabric_.host_links) pull_again(id);
}

void Partition::on_credit(uint32_t id, uint32_t what) {
  Link& link = links_[id];
  link.classes->credit[what >> 24] += what & 0xFFFFFF;
  if (link.classes->sending == nullptr) start_next(id, link);
}

void Partition::set_paused(uint32_t id, uint32_t priority, bool paused) {
  Link& link = links_[id];
  if (!link.is(Link::kExplicit)) {
    if (!paused) return;
    make_explicit(id, link);
  }
  ClassQueues& queues = *link.classes;
  const uint32_t bit = 1U << priority;
  if (paused == ((queues.paused & bit) != 0)) return;
  queues.paused ^= bit;
  if (incidents_ != nullptr) {
    Incident incident;
    incident.at = now_;
    incident.link = id;
    incident.kind = paused ? Incident::Kind::kPause : Incident::Kind::kResume;
    incident.priority = static_cast<uint8_t>(priority);
    incidents_->push_back(incident);
  }
  if (id < fabric_.host_links) {
    const uint32_t planes = fabric_.topology.planes;
    fabric_.hosts[id / planes].transport->on_pause(now_, id % planes, queues.paused);
  }
  if (paused) {
    queues.paused_since[priority] = now_;
    return;
  }
  queues.paused_time += now_ - queues.paused_since[priority];
  if (queues.sending == nullptr) start_next(id, link);
  if (id < fabric_.host_links) pull_again(id);
}

}  // namespace mroce::sim
