#include "soak/world/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/base/assert.h"

namespace mroce::soak {

namespace {
constexpr uint16_t kFirstSourcePort = 1024;  // source ports: this + 256 x slot + entropy

Nanos time_for(uint64_t bytes, uint64_t rate_bps) {
  return Nanos{static_cast<int64_t>(bytes * 8 * 1000000000ULL / rate_bps)};
}
}  // namespace

Network::Network(uint64_t seed, const Time& now, EventQueue& events)
    : rng_(seed), now_(now), events_(events) {
  const char* trace = std::getenv("MROCE_TEST_TRACE");
  trace_ = trace != nullptr && std::strcmp(trace, "1") == 0;
}

uint32_t Network::attach(Receiver& receiver) {
  receivers_.push_back(&receiver);
  addresses_.emplace_back();
  return static_cast<uint32_t>(receivers_.size() - 1);
}

void Network::add_address(uint32_t endpoint, uint32_t port, const Gid& address, uint16_t udp_port,
                          uint8_t slot) {
  MROCE_ASSERT(port == addresses_[endpoint].size());
  addresses_[endpoint].push_back({address, udp_port});
  places_[{address, udp_port}] = {endpoint, port};
  for (uint32_t entropy = 0; entropy < kEntropies; ++entropy) {  // answers to a source port come back, too
    places_[{address, static_cast<uint16_t>(kFirstSourcePort + slot * kEntropies + entropy)}] = {endpoint,
                                                                                                 port};
  }
}

const Network::Place* Network::route(const UdpAddress& to) const {
  const auto it = places_.find(to);
  return it == places_.end() ? nullptr : &it->second;
}

// ---- faults
// -----------------------------------------------------------------------------------------------------

Faults& Network::faults(uint32_t from, uint32_t to) {
  return by_pair_.try_emplace({from, to}, all_).first->second;
}

Faults& Network::faults(uint32_t from, uint32_t to, uint8_t path) {
  const auto pair = by_pair_.find({from, to});
  return by_path_.try_emplace({from, to, path}, pair == by_pair_.end() ? all_ : pair->second).first->second;
}

const Faults& Network::faults_of(uint32_t from, uint32_t to, uint8_t path) const {
  if (const auto it = by_path_.find({from, to, path}); it != by_path_.end()) return it->second;
  if (const auto it = by_pair_.find({from, to}); it != by_pair_.end()) return it->second;
  return all_;
}

namespace {
void calm(Faults& faults) {
  Faults calm;
  calm.latency = faults.latency;
  calm.rate_bps = faults.rate_bps;
  calm.queue_bytes = faults.queue_bytes;
  calm.ce_above_bytes = faults.ce_above_bytes;
  faults = calm;
}
}  // namespace

void Network::stop_faults() {
  calm(all_);
  for (auto& [key, faults] : by_pair_) calm(faults);
  for (auto& [key, faults] : by_path_) calm(faults);
  for (auto& [key, way] : ways_) way.bad_until = Time{};
  filters_.clear();
  spells_.clear();
}

void Network::drop_between(Time from, Time until) {
  Spell spell;
  spell.kind = FaultKind::kBlackout;
  spell.from = from;
  spell.until = until;
  add_spell(spell);
}

void Network::drop_path_between(uint8_t path, Time from, Time until) {
  Spell spell;
  spell.kind = FaultKind::kPathDown;
  spell.from = from;
  spell.until = until;
  spell.path = path;
  add_spell(spell);
}

void Network::drop_nth(uint64_t n, Filter matches) {
  add_filter([n, matches = std::move(matches), seen = uint64_t{0}](const PacketView& packet) mutable {
    return matches(packet) && seen++ == n;
  });
}

void Network::cut_link(uint32_t endpoint, uint32_t port, bool down) {
  if (down) {
    down_.insert({endpoint, port});
  } else {
    down_.erase({endpoint, port});
  }
}

void Network::set_port_rate(const Gid& address, uint64_t rate_bps, uint64_t queue_bytes,
                            uint64_t ce_above_bytes) {
  nics_[address] = {rate_bps, queue_bytes, ce_above_bytes, {}, {}};
}

Network::Nic* Network::nic_of(uint32_t endpoint, uint32_t port) {
  const auto it = nics_.find(addresses_[endpoint][port].ip);
  return it == nics_.end() ? nullptr : &it->second;
}

// ---- sending
// ----------------------------------------------------------------------------------------------------

void Network::hash_word(uint64_t word) {  // FNV-1a by words, with the high half folded in
  hash_ = (hash_ ^ word) * 0x100000001b3ULL;
  hash_ ^= hash_ >> 32;
}

// The header, and the end: the trailer there stands for all bytes between.
void Network::hash_datagram(std::span<const std::byte> bytes) {
  constexpr size_t kWhole = 96;
  hash_word(bytes.size());
  const size_t begin = std::min(bytes.size(), kWhole);
  for (size_t at = 0; at < begin; at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<size_t>(8, begin - at));
    hash_word(word);
  }
  if (bytes.size() < kWhole + 8) return;
  uint64_t word = 0;
  std::memcpy(&word, bytes.data() + bytes.size() - 8, 8);
  hash_word(word);
}

void Network::note(const PacketView& packet, const char* fate) const {
  if (teller_) teller_(packet, fate);
  if (!trace_) return;
  std::fputs(fmt::format("{:14.6f} ms {}>{} {}{}{}\n", static_cast<double>(ns_of(packet.at)) / 1e6,
                         packet.from, packet.to, describe(packet), fate[0] == 0 ? "" : "  -- ", fate)
                 .c_str(),
             stderr);
}

void Network::send(uint32_t from, const Gid& source, uint8_t slot, const TxBurst& burst) {
  flat_.clear();
  for (const Slice& slice : burst.slices) flat_.insert(flat_.end(), slice.data, slice.data + slice.length);
  MROCE_ASSERT(flat_.size() == burst.total_bytes && burst.segments >= 1 && burst.segments <= kMaxSegments);
  MROCE_ASSERT(flat_.size() > size_t{burst.segments - 1} * burst.segment_bytes &&
               flat_.size() <= size_t{burst.segments} * burst.segment_bytes &&
               burst.total_bytes <= kMaxBurstBytes);
  MROCE_ASSERT(burst.entropy < kEntropies);
  hash_word(static_cast<uint64_t>(ns_of(now_)));
  const Place* place = route(burst.to);
  if (place == nullptr) {
    hash_datagram(flat_);
    counters_.unroutable += burst.segments;
    return;
  }
  Faults faults = faults_of(from, place->endpoint, burst.path);
  if (spells_cover(from, place->endpoint, burst.path)) {
    for (const Spell& spell : spells_) {
      if (spell.covers(now_, from, place->endpoint, burst.path)) spell.worsen(faults);
    }
  }
  Way& way = ways_[{from, place->endpoint, burst.path}];
  std::vector<Arrival> arrivals;
  for (size_t offset = 0; offset < flat_.size(); offset += burst.segment_bytes) {
    PacketView packet;
    packet.at = now_;
    packet.number = counters_.sent++;
    packet.from = from;
    packet.to = place->endpoint;
    packet.path = burst.path;
    packet.entropy = burst.entropy;
    packet.port = burst.port;
    packet.to_port = place->port;
    packet.ecn = burst.ecn;
    packet.bytes =
        std::span(flat_).subspan(offset, std::min<size_t>(burst.segment_bytes, flat_.size() - offset));
    counters_.sent_bytes += packet.bytes.size();
    hash_datagram(packet.bytes);
    if (down_.contains({from, burst.port}) || down_.contains({place->endpoint, place->port})) {
      note(packet, "link down");
      ++counters_.lost;
      continue;
    }
    travel(packet, faults, way, arrivals);
  }
  const UdpAddress back{source, static_cast<uint16_t>(kFirstSourcePort + slot * kEntropies + burst.entropy)};
  deliver(*place, back, std::move(arrivals));
}

bool Network::spells_cover(uint32_t from, uint32_t to, uint8_t path) {
  if (spells_.empty()) return false;
  std::erase_if(spells_, [this](const Spell& spell) { return spell.until <= now_; });
  return std::any_of(spells_.begin(), spells_.end(),
                     [&](const Spell& spell) { return spell.covers(now_, from, to, path); });
}

const char* Network::fate_by_spell(const PacketView& packet) {
  for (const Spell& spell : spells_) {
    if (!spell.loses_everything() || !spell.covers(now_, packet.from, packet.to, packet.path)) continue;
    tally_.count(spell.kind);
    ++counters_.filtered;
    return name_of(spell.kind).data();  // words of a table: they end with a zero
  }
  return nullptr;
}

const char* Network::fate_before_chance(const PacketView& packet, const Faults& faults) {
  for (const auto& watcher : watchers_) watcher(packet);
  bool wanted = false;
  for (const Filter& filter : filters_) wanted = filter(packet) || wanted;
  if (wanted) {
    ++counters_.filtered;
    return "filtered";
  }
  if (const char* fate = fate_by_spell(packet)) return fate;
  if (faults.cut) {
    ++counters_.lost;
    tally_.count(FaultKind::kCut);
    return "cut";
  }
  return nullptr;
}

const char* Network::fate_by_chance(const Faults& faults, Way& way) {
  if (faults.burst_loss > 0 && rng_.chance(faults.burst_loss)) way.bad_until = now_ + faults.burst_length;
  const bool bad = now_ < way.bad_until;
  if (!bad && (faults.loss <= 0 || !rng_.chance(faults.loss))) return nullptr;
  ++counters_.lost;
  tally_.count(bad ? FaultKind::kLossBurst : FaultKind::kLoss);
  return "lost";
}

void Network::damage(const PacketView& packet, const Faults& faults, std::vector<std::byte>& bytes) {
  if (meddler_) meddler_(packet, bytes);
  const char* fate = "";
  if (faults.corrupt > 0 && rng_.chance(faults.corrupt)) {
    bytes[rng_.below(bytes.size())] ^= static_cast<std::byte>(rng_.between(1, 255));
    ++counters_.corrupted;
    tally_.count(FaultKind::kCorrupt);
    fate = "corrupted";
  }
  if (faults.truncate > 0 && rng_.chance(faults.truncate)) {
    bytes.resize(rng_.between(1, bytes.size()));
    tally_.count(FaultKind::kTruncate);
    fate = "truncated";
  }
  note(packet, fate);
}

void Network::travel(PacketView& packet, const Faults& faults, Way& way, std::vector<Arrival>& arrivals) {
  if (const char* fate = fate_before_chance(packet, faults)) return note(packet, fate);
  if (const char* fate = fate_by_chance(faults, way)) return note(packet, fate);
  if (faults.clogged) tally_.count(FaultKind::kClog);
  Ecn ecn = packet.ecn;
  const auto leaves = through_queues(packet, faults, way, ecn);
  if (!leaves) {
    ++counters_.overflowed;
    tally_.count(FaultKind::kQueueFull);
    return note(packet, "queue full");
  }
  if (ecn != Ecn::kNotEct && faults.ce > 0 && rng_.chance(faults.ce)) ecn = Ecn::kCe;
  if (ecn == Ecn::kCe) {
    ++counters_.marked;
    tally_.count(FaultKind::kMark);
  }
  Time at = *leaves + faults.latency;
  if (faults.jitter.count() > 0)
    at += Nanos{static_cast<int64_t>(rng_.below(static_cast<uint64_t>(faults.jitter.count())))};
  if (faults.reorder > 0 && rng_.chance(faults.reorder)) {
    at += faults.reorder_delay;
    tally_.count(FaultKind::kReorder);
  }
  std::vector<std::byte> bytes(packet.bytes.begin(), packet.bytes.end());
  damage(packet, faults, bytes);
  const auto again = [&](double share, Nanos after, FaultKind kind) {
    if (share <= 0 || !rng_.chance(share)) return;
    ++counters_.duplicated;
    tally_.count(kind);
    arrivals.push_back({at + after, ecn, bytes});
  };
  again(faults.duplicate, faults.duplicate_after, FaultKind::kDuplicate);
  again(faults.late_duplicate, faults.late_duplicate_after, FaultKind::kLateDuplicate);
  arrivals.push_back({at, ecn, std::move(bytes)});
}

namespace {
// When a datagram that enters a queue now has left it; nullopt: it does not fit.
std::optional<Time> through_queue(size_t size, uint64_t rate_bps, uint64_t queue_bytes,
                                  uint64_t ce_above_bytes, Time now, Time& busy_until, Ecn& ecn) {
  const Time begins = std::max(now, busy_until);
  const auto waiting = static_cast<uint64_t>(static_cast<double>((begins - now).count()) *
                                             static_cast<double>(rate_bps) / 8e9);
  if (waiting + size > queue_bytes) return std::nullopt;
  if (ce_above_bytes != 0 && waiting > ce_above_bytes && ecn != Ecn::kNotEct) ecn = Ecn::kCe;
  busy_until = begins + time_for(size, rate_bps);
  return busy_until;
}
}  // namespace

std::optional<Time> Network::leaves_port(Nic* nic, size_t size, Ecn& ecn) {
  if (nic == nullptr || nic->rate_bps == 0) return now_;
  return through_queue(size, nic->rate_bps, nic->queue_bytes, nic->ce_above_bytes, now_, nic->out.busy_until,
                       ecn);
}

// Datagrams are looked at when they are sent, and ways differ in length: one may enter this port before
// others that were looked at earlier, and does not wait for them.
std::optional<Time> Network::enters_port(Nic* nic, size_t size, Time enters, Ecn& ecn) {
  if (nic == nullptr || nic->rate_bps == 0) return enters;
  std::map<Time, Time>& in = nic->in;
  while (!in.empty() && in.begin()->second < now_) in.erase(in.begin());
  const auto later = in.upper_bound(enters);
  Time busy_until = later == in.begin() ? Time{} : std::prev(later)->second;
  const auto left =
      through_queue(size, nic->rate_bps, nic->queue_bytes, nic->ce_above_bytes, enters, busy_until, ecn);
  if (left) in[enters] = *left;
  return left;
}

// The sender's port, the way, the receiver's port.
std::optional<Time> Network::through_queues(const PacketView& packet, const Faults& faults, Way& way,
                                            Ecn& ecn) {
  std::optional<Time> at = now_;
  if (!nics_.empty()) at = leaves_port(nic_of(packet.from, packet.port), packet.bytes.size(), ecn);
  if (at && faults.rate_bps != 0) {
    at = through_queue(packet.bytes.size(), faults.rate_bps, faults.queue_bytes, faults.ce_above_bytes, *at,
                       way.queue.busy_until, ecn);
  }
  if (at && !nics_.empty())
    at = enters_port(nic_of(packet.to, packet.to_port), packet.bytes.size(), *at, ecn);
  return at;
}

// Neighbours of one burst that arrive at one time with one mark become one super-packet, whose datagrams have
// one size except that the last may be shorter.
void Network::deliver(const Place& place, const UdpAddress& source, std::vector<Arrival> arrivals) {
  size_t i = 0;
  while (i < arrivals.size()) {
    const Time at = arrivals[i].at;
    const Ecn ecn = arrivals[i].ecn;
    std::vector<std::byte> bytes = std::move(arrivals[i].bytes);
    const size_t segment = bytes.size();
    size_t last = segment;
    for (++i; coalesce_ && i < arrivals.size() && arrivals[i].at == at && arrivals[i].ecn == ecn &&
              last == segment && arrivals[i].bytes.size() <= segment;
         ++i) {
      last = arrivals[i].bytes.size();
      bytes.insert(bytes.end(), arrivals[i].bytes.begin(), arrivals[i].bytes.end());
    }
    schedule(place, source, at, ecn, std::move(bytes), static_cast<uint32_t>(segment));
  }
}

void Network::schedule(const Place& place, const UdpAddress& source, Time at, Ecn ecn,
                       std::vector<std::byte> bytes, uint32_t segment_bytes) {
  const RxMeta meta{place.port, source, ecn};
  events_.at(at, [this, place, meta, segment_bytes, bytes = std::move(bytes)]() mutable {
    if (down_.contains({place.endpoint, place.port})) {
      ++counters_.lost;
      return;
    }
    ++counters_.delivered;
    receivers_[place.endpoint]->receive(meta, std::move(bytes), segment_bytes);
  });
}

void Network::inject(uint32_t from, uint32_t to, std::vector<std::byte> bytes, Nanos after,
                     uint32_t to_port) {
  const UdpAddress source{addresses_[from][0].ip, kFirstSourcePort};
  const auto segment = static_cast<uint32_t>(bytes.size());
  schedule({to, to_port}, source, now_ + after, Ecn::kNotEct, std::move(bytes), segment);
}

void Network::resign(std::span<std::byte> datagram) {
  const auto body = datagram.first(datagram.size() - wire::kTrailerBytes);
  wire::write_trailer(wire::crc_finish(wire::crc_update(wire::kCrcStart, body)),
                      datagram.data() + body.size());
}

}  // namespace mroce::soak
