// Progress: the engine's loop of engine.h, one bounded round at a time, from whichever thread comes.
//
// An idle poll costs one lock, one clock read and one receive call for each socket in use: nothing else is
// touched unless something arrived, a deadline passed or the engine had more to send.
#include <sched.h>

#include <bit>

#include "net/endpoint_impl.h"

namespace mroce::net {
namespace {

constexpr size_t kLargeBurst = 16 * 1024;  // behind a burst like this there is often another
constexpr Nanos kLookAtLeastEvery = micros(20);
constexpr uint32_t kCommandBursts = 32;
constexpr uint64_t kHabit = 16;             // receives from one socket in a row
constexpr uint32_t kLookAtAllEvery = 8;     // rounds
constexpr int64_t kInside = INT64_MAX / 2;  // of last_call_ns: a call goes on, which is as fresh as it gets
constexpr RoundBudget kPollBudget{.receives = 4, .bursts = 32};
constexpr RoundBudget kHelperBudget{.receives = 4, .bursts = 8};

}  // namespace

uint32_t Endpoint::poll_cq(CqHandle cq, std::span<Wc> out) {
  if (gone()) [[unlikely]]
    return 0;
  const std::unique_lock lock = acquire();
  if (gone()) [[unlikely]]
    return 0;
  const uint32_t count = impl_->engine->poll_cq(cq, out);
  if (count > 0) return count;
  if (!progress_of_caller()) return 0;
  return impl_->engine->poll_cq(cq, out);
}

void Endpoint::progress() {
  if (gone()) [[unlikely]]
    return;
  const std::unique_lock lock = acquire();
  if (gone()) [[unlikely]]
    return;
  progress_of_caller();
}

// One round, noting for the helper thread that the application is here; true if there was something to do.
bool Endpoint::progress_of_caller() {
  const Time now = clock_now();
  impl_->last_call_ns.store(kInside, std::memory_order_relaxed);
  const bool found = impl_->polling_round(now).found;
  impl_->last_call_ns.store(ns_of(found ? clock_now() : now), std::memory_order_relaxed);
  return found;
}

void Endpoint::after_command(Time now) {
  impl_->after_command(now);
}

// Says that it waits, so that the helper thread, which would take the lock again at once, lets it pass.
std::unique_lock<std::mutex> Endpoint::acquire() const {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) {
    impl_->waiting_callers.fetch_add(1, std::memory_order_relaxed);
    lock.lock();
    impl_->waiting_callers.fetch_sub(1, std::memory_order_relaxed);
  }
  return lock;
}

void Endpoint::Impl::after_command(Time at) {
  now = at;
  last_call_ns.store(kInside, std::memory_order_relaxed);
  // The helper thread steps aside for a caller that only posts, too, so such a caller must receive now and
  // then.
  if (at - last_look >= kLookAtLeastEvery) polling_round(at);
  at = now;  // what has arrived has a later time, and time does not step back
  unsent = transmit(at, kCommandBursts);
  deliver_events();
  publish_deadline(at, unsent);
  last_call_ns.store(ns_of(clock_now()), std::memory_order_relaxed);
}

HelperRound Endpoint::Impl::polling_round(Time at) {
  last_look = at;
  // Where one socket has all the traffic, receiving from it at once saves the look at all of them.
  if (heard_in_a_row >= kHabit && ++rounds_unseen < kLookAtAllEvery) {
    return round(at, uint64_t{1} << heard_last, false, kPollBudget);
  }
  rounds_unseen = 0;
  const WakeReason ready = helper.look();
  return round(at, ready.sockets, ready.links, kPollBudget);
}

void Endpoint::Impl::note_heard(size_t socket) {
  heard_in_a_row = socket == heard_last ? heard_in_a_row + 1 : 1;
  heard_last = socket;
}

HelperRound Endpoint::Impl::helper_round(const WakeReason& reason) {
  for (int i = 0; i < 100 && waiting_callers.load(std::memory_order_relaxed) > 0; ++i) sched_yield();
  const std::unique_lock lock(mutex);
  return round(clock_now(), reason.sockets, reason.links, kHelperBudget);
}

HelperRound Endpoint::Impl::round(Time at, uint64_t sockets, bool look_at_links, const RoundBudget& budget) {
  now = at;
  HelperRound result;
  if (look_at_links) report_links(at);
  result.found = receive(sockets, budget.receives, result.more);
  at = now;
  if (at >= deadline() || unsent || wire->blocked()) {
    result.found = true;
    wire->progress(at);
    if (at >= engine->next_deadline()) engine->on_timeout(at);
  }
  if (!result.found) {
    result.deadline = deadline();
    return result;
  }
  report_refusals();
  report_trace();
  unsent = transmit(at, budget.bursts);
  deliver_events();
  publish_deadline(at, unsent);
  result.more = result.more || unsent;
  result.deadline = deadline();
  return result;
}

bool Endpoint::Impl::receive(uint64_t sockets, uint32_t budget, bool& more) {
  bool found = false;
  // Begin at another socket each time, so that a busy one does not starve the others.
  const auto turn = static_cast<int>(++rounds % receivers->count());
  uint64_t left = std::rotr(sockets, turn);
  for (int at_bit = 0; left != 0; at_bit = (at_bit + 1) % 64) {
    if ((left >> at_bit & 1) == 0) continue;
    if (budget == 0) {
      more = true;
      return found;
    }
    const auto socket = static_cast<size_t>((at_bit + turn) % 64);
    const auto received = receivers->receive(socket);
    // A socket that gave little is empty by now; one that gave much has another turn after the others.
    if (!received || received->bytes.size() < kLargeBurst) left &= ~(uint64_t{1} << at_bit);
    if (!received) continue;
    note_heard(socket);
    --budget;
    found = true;
    // What arrived may have come after the round began, and the thread may have been away in between: a
    // stale time would shorten round trips.
    const Time at = now = clock_now();
    if (received->overflow > 0) {
      socket_overflows += received->overflow;
      engine->on_receive_overflow(at, received->overflow);
    }
    if (!received->bytes.empty()) wire->receive(at, *received);
  }
  return found;
}

void Endpoint::Impl::arrived(const RxMeta& meta, std::span<const std::byte> bytes, uint32_t segment_bytes) {
  engine->on_burst(now, meta, bytes, segment_bytes);
}

bool Endpoint::Impl::transmit(Time at, uint32_t budget) {
  TxBurst burst;
  for (uint32_t i = 0; i < budget; ++i) {
    if (wire->blocked() || !engine->poll_transmit(at, burst)) return false;
    wire->send(at, burst);
    for (uint64_t refused = wire->take_refused(); refused != 0; refused &= refused - 1) {
      engine->on_send_error(at, static_cast<uint32_t>(std::countr_zero(refused)));
    }
  }
  return true;
}

void Endpoint::Impl::deliver_events() {
  Event event;
  while (engine->poll_event(event)) sink.on_event(event);
}

void Endpoint::Impl::publish_deadline(Time at, bool more) {
  const Time next = more ? at : std::min(engine->next_deadline(), wire->next_deadline());
  deadline_ns.store(ns_of(next), std::memory_order_seq_cst);
  helper.deadline_is(next);
}

// Without a sentence, all that a person would see is a time-out.
void Endpoint::Impl::report_refusals() {
  const EngineCounters& counters = engine->counters();
  if (counters.drop_security != 0 && !told_of_mode) {
    told_of_mode = true;
    log(LogLevel::kWarn,
        "refused a peer that allows no security mode that is allowed here (security={}); set security to the "
        "same on both sides",
        settings.text("security"));
  }
  if (counters.drop_key_id != 0 && !told_of_key) {
    told_of_key = true;
    log(LogLevel::kWarn, "refused a peer that has another pre-shared key; give both sides the same key_file");
  }
}

// While the program runs: it may go on for hours, and end without a word.
void Endpoint::Impl::report_trace() {
  const PcapngWriter* trace = wire->trace();
  if (trace == nullptr || told_of_trace || !trace->lacks_any()) return;
  told_of_trace = true;
  log(LogLevel::kWarn, "packets are missing in the trace {}: {}", trace->path(), trace->trouble());
}

void Endpoint::Impl::report_links(Time at) {
  for (const LinkChange& change : links.poll()) {
    for (uint32_t port = 0; port < addresses.size(); ++port) {
      if (addresses[port].ifindex != change.ifindex) continue;
      addresses[port].up = change.up;
      log(LogLevel::kInfo, "link {} of {} is {}", addresses[port].interface, to_string(addresses[port].gid),
          change.up ? "up" : "down");
      engine->on_link(at, port, change.up);
      unsent = true;  // there may be probes to send and events to deliver
    }
  }
}

}  // namespace mroce::net
