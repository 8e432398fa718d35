#include "soak/world/network.h"

#include <fmt/format.h>

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

void Network::forget_special_faults() {
  by_pair_.clear();
  by_path_.clear();
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
}

void Network::drop_between(Time from, Time until) {
  add_filter([from, until](const PacketView& packet) { return packet.at >= from && packet.at < until; });
}

void Network::drop_path_between(uint8_t path, Time from, Time until) {
  add_filter([path, from, until](const PacketView& packet) {
    return packet.path == path && packet.at >= from && packet.at < until;
  });
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

// ---- sending
// ----------------------------------------------------------------------------------------------------

void Network::hash_bytes(std::span<const std::byte> bytes) {  // FNV-1a
  for (const std::byte byte : bytes) hash_ = (hash_ ^ static_cast<uint64_t>(byte)) * 0x100000001b3ULL;
}

void Network::note(const PacketView& packet, const char* fate) const {
  if (!trace_) return;
  std::fputs(fmt::format("{:14.6f} ms {}>{} {}{}{}\n", static_cast<double>(ns_of(packet.at)) / 1e6,
                         packet.from, packet.to, describe(packet), fate[0] == 0 ? "" : "  -- ", fate)
                 .c_str(),
             stderr);
}

void Network::send(uint32_t from, const Gid& source, uint8_t slot, const TxBurst& burst) {
  std::vector<std::byte> flat;
  flat.reserve(burst.total_bytes);
  for (const Slice& slice : burst.slices) flat.insert(flat.end(), slice.data, slice.data + slice.length);
  MROCE_ASSERT(flat.size() == burst.total_bytes && burst.segments >= 1 && burst.segments <= kMaxSegments);
  MROCE_ASSERT(flat.size() > size_t{burst.segments - 1} * burst.segment_bytes &&
               flat.size() <= size_t{burst.segments} * burst.segment_bytes &&
               burst.total_bytes <= kMaxBurstBytes);
  MROCE_ASSERT(burst.entropy < kEntropies);
  const int64_t when = ns_of(now_);
  hash_bytes(std::as_bytes(std::span(&when, 1)));
  hash_bytes(flat);
  const Place* place = route(burst.to);
  if (place == nullptr) {
    counters_.unroutable += burst.segments;
    return;
  }
  const Faults& faults = faults_of(from, place->endpoint, burst.path);
  Way& way = ways_[{from, place->endpoint, burst.path}];
  std::vector<Arrival> arrivals;
  for (size_t offset = 0; offset < flat.size(); offset += burst.segment_bytes) {
    PacketView packet;
    packet.at = now_;
    packet.number = counters_.sent++;
    packet.from = from;
    packet.to = place->endpoint;
    packet.path = burst.path;
    packet.port = burst.port;
    packet.ecn = burst.ecn;
    packet.bytes =
        std::span(flat).subspan(offset, std::min<size_t>(burst.segment_bytes, flat.size() - offset));
    counters_.sent_bytes += packet.bytes.size();
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

const char* Network::fate_before_chance(const PacketView& packet, const Faults& faults) {
  for (const auto& watcher : watchers_) watcher(packet);
  bool wanted = false;
  for (const Filter& filter : filters_) wanted = filter(packet) || wanted;
  if (wanted) {
    ++counters_.filtered;
    return "filtered";
  }
  if (faults.cut) {
    ++counters_.lost;
    return "cut";
  }
  return nullptr;
}

void Network::travel(PacketView& packet, const Faults& faults, Way& way, std::vector<Arrival>& arrivals) {
  if (const char* fate = fate_before_chance(packet, faults)) return note(packet, fate);
  if (faults.burst_loss > 0 && rng_.chance(faults.burst_loss)) way.bad_until = now_ + faults.burst_length;
  if (now_ < way.bad_until || (faults.loss > 0 && rng_.chance(faults.loss))) {
    ++counters_.lost;
    return note(packet, "lost");
  }
  Ecn ecn = packet.ecn;
  const auto leaves = through_queue(packet, faults, way, ecn);
  if (!leaves) {
    ++counters_.overflowed;
    return note(packet, "queue full");
  }
  if (ecn != Ecn::kNotEct && faults.ce > 0 && rng_.chance(faults.ce)) ecn = Ecn::kCe;
  if (ecn == Ecn::kCe) ++counters_.marked;
  Time at = *leaves + faults.latency;
  if (faults.jitter.count() > 0)
    at += Nanos{static_cast<int64_t>(rng_.below(static_cast<uint64_t>(faults.jitter.count())))};
  if (faults.reorder > 0 && rng_.chance(faults.reorder)) at += faults.reorder_delay;
  std::vector<std::byte> bytes(packet.bytes.begin(), packet.bytes.end());
  if (meddler_) meddler_(packet, bytes);
  if (faults.corrupt > 0 && rng_.chance(faults.corrupt)) {
    bytes[rng_.below(bytes.size())] ^= static_cast<std::byte>(rng_.between(1, 255));
    ++counters_.corrupted;
    note(packet, "corrupted");
  } else {
    note(packet, "");
  }
  if (faults.duplicate > 0 && rng_.chance(faults.duplicate)) {
    ++counters_.duplicated;
    arrivals.push_back({at + faults.duplicate_after, ecn, bytes});
  }
  if (faults.late_duplicate > 0 && rng_.chance(faults.late_duplicate)) {
    ++counters_.duplicated;
    arrivals.push_back({at + faults.late_duplicate_after, ecn, bytes});
  }
  arrivals.push_back({at, ecn, std::move(bytes)});
}

std::optional<Time> Network::through_queue(const PacketView& packet, const Faults& faults, Way& way,
                                           Ecn& ecn) {
  if (faults.rate_bps == 0) return now_;
  const Time begins = std::max(now_, way.busy_until);
  const uint64_t waiting = static_cast<uint64_t>(static_cast<double>((begins - now_).count()) *
                                                 static_cast<double>(faults.rate_bps) / 8e9);
  if (waiting + packet.bytes.size() > faults.queue_bytes) return std::nullopt;
  if (faults.ce_above_bytes != 0 && waiting > faults.ce_above_bytes && ecn != Ecn::kNotEct) ecn = Ecn::kCe;
  way.busy_until = begins + time_for(packet.bytes.size(), faults.rate_bps);
  return way.busy_until;
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
