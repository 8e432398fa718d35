// Two engines in virtual time for the fuzzers, and what must hold of them whatever reaches them.
//
// * Placements and fetches lie in memory that was registered once (the world ends the program for what lies
//   outside its blocks, and between them are blocks that nobody registers).
// * A work request completes at most once, in the order of its queue, with a number that was posted.
// * Counters agree with each other.
// * An orderly end comes to its end in bounded virtual time, without anything held.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include "fuzz/input.h"
#include "fuzz/source.h"
#include "soak/world/world.h"

namespace mroce::fuzz {

using soak::Endpoint;
using soak::Mr;
using soak::PacketView;
using soak::Qp;
using soak::World;

struct Flavour {
  bool secured = false;  // mode 2
  bool cookies = false;  // an INIT needs one as soon as another is under way
  bool choosy = false;   // rate hints, and paths that lose much are avoided
  uint32_t planes = 2;
  uint32_t window = 16384;

  static Flavour of(uint8_t bits) {
    Flavour flavour;
    flavour.secured = (bits & 1) != 0;
    flavour.cookies = (bits & 2) != 0;
    flavour.window = (bits & 4) != 0 ? 64 : 16384;
    flavour.choosy = (bits & 8) != 0;
    return flavour;
  }
};

inline soak::EndpointOptions endpoint_options(const Flavour& flavour) {
  soak::EndpointOptions options;
  options.planes = flavour.planes;
  options.link_mtu = 1500;
  options.tweak = [flavour](EngineConfig& config) {
    config.max_paths = 4;
    config.cpsn_window = flavour.window;
    if (flavour.cookies) config.retry_above = 0;
    config.rate_hints = config.degraded_paths = flavour.choosy;
    for (LocalPort& port : config.ports) port.rate_bps = flavour.choosy ? 1000000000 : 0;
    if (!flavour.secured) return;
    config.security = SecurityPolicy::kRequire;
    config.preshared_key.emplace().fill(0x5a);
    config.key_update_packets = 64;
  };
  return options;
}

// The numbers of one queue's work requests, in order, that have not completed.
class Outstanding {
 public:
  void posted(uint64_t wr_id) { waiting_.push_back(wr_id); }
  // Requests before it may have been unsignaled; `ordered` is false for a shared receive queue.
  void completed(uint64_t wr_id, bool ordered = true) {
    const auto found = std::ranges::find(waiting_, wr_id);
    require(found != waiting_.end(), "a completion of nothing that is outstanding", fmt::format("{}", wr_id));
    if (ordered) {
      waiting_.erase(waiting_.begin(), found + 1);
    } else {
      waiting_.erase(found);
    }
  }
  bool empty() const { return waiting_.empty(); }
  void clear() { waiting_.clear(); }

 private:
  std::deque<uint64_t> waiting_;
};

// Memory of an endpoint that was ever registered.
class Regions {
 public:
  explicit Regions(Endpoint& endpoint) {
    endpoint.memory().on_place = [this](const soak::Placement& p, std::span<const std::byte>) {
      require(within(p.addr, p.length), "a placement outside every region", fmt::format("{:x}", p.addr));
    };
    endpoint.memory().on_fetch = [this](uint64_t addr, uint32_t length) {
      require(within(addr, length), "a fetch outside every region", fmt::format("{:x}", addr));
    };
  }
  Regions(const Regions&) = delete;
  Regions& operator=(const Regions&) = delete;
  void add(uint64_t addr, uint64_t length) { ranges_.push_back({addr, length}); }

 private:
  bool within(uint64_t addr, uint64_t length) const {
    return std::ranges::any_of(ranges_, [&](const auto& range) {
      return addr >= range.first && addr - range.first <= range.second &&
             length <= range.second - (addr - range.first);
    });
  }
  std::vector<std::pair<uint64_t, uint64_t>> ranges_;
};

inline void require_counters(const Engine& engine) {
  const EngineCounters& all = engine.counters();
  require(all.tx_bursts <= all.tx_datagrams, "more bursts than datagrams");
  require(all.rx_bytes >= all.drop_crc, "drops without datagrams");
  require(engine.held_bytes() <= engine.config().held_bytes, "more is held than may be");
  for (const ConnectionStats& stats : engine.connection_stats()) {
    const ConnectionCounters& counts = stats.counters;
    require(counts.retransmissions <= counts.data_packets_sent, "more retransmissions than packets");
    require(counts.duplicates <= counts.data_packets_received, "more duplicates than packets");
    require(counts.spurious <= counts.lost, "more spurious losses than losses");
    require(counts.penalized_acks <= counts.acks_received, "more penalties than ACKs");
    uint64_t sent = 0;
    for (const PathStats& path : stats.paths) {
      const PathCounters& of_path = path.counters;
      require(of_path.acked + of_path.lost <= of_path.sent, "more is known than was sent");
      require(of_path.retransmitted <= of_path.sent, "more retransmissions than packets of a path");
      require(of_path.spurious <= of_path.lost, "more spurious losses than losses of a path");
      sent += of_path.sent;
    }
    require(sent <= counts.data_packets_sent, "paths sent more than their connection");
  }
}

// Everything that the fuzzer did to the network goes; then both engines end.
inline void require_end(World& world, Endpoint& a, Endpoint& b) {
  world.network().stop_faults();
  for (Endpoint* each : {&a, &b}) {
    for (uint32_t port = 0; port < each->ports(); ++port) each->set_link(port, true);
    each->engine().shutdown(world.now());
  }
  const auto ended = [&] { return a.look().quiescent() && b.look().quiescent(); };
  require(world.run_until(ended, seconds(60)), "an orderly end does not end");
  for (const Endpoint* each : {&a, &b}) {
    require_counters(each->look());
    require(each->look().held_bytes() == 0, "something is held after the end");
  }
}

// What a datagram from one engine to the other tells an attacker who sees all of them.
struct Seen {
  uint32_t dcid = 0;  // of the receiver
  uint32_t cpsn = 0;  // newest of DATA
  uint8_t path = 0;
  std::array<uint32_t, wire::kMaxPaths> pseq{};     // newest of DATA, by path
  std::array<uint32_t, wire::kMaxPaths> control{};  // of everything else
  uint32_t ts = 0;
  uint32_t cack = 0, cpsn_limit = 0;  // of the newest ACK
  uint32_t incarnation = 0;           // of the newest stream; unknown in mode 2
};

inline std::span<const std::byte> without_trailer(std::span<const std::byte> bytes, bool secured) {
  const size_t trailer = secured ? wire::kTagBytes : wire::kTrailerBytes;
  return bytes.first(bytes.size() - std::min(bytes.size(), trailer));
}

inline void note(Seen& seen, const PacketView& packet, bool secured) {
  wire::Common header;
  if (!wire::decode_common(packet.bytes, header)) return;
  if (header.type <= wire::Type::kVersion || header.path >= wire::kMaxPaths) return;
  seen.dcid = header.dcid;
  seen.ts = header.ts;
  seen.path = header.path;
  const auto body = without_trailer(packet.bytes, secured);
  if (header.type != wire::Type::kData) {
    seen.control[header.path] = header.pseq;
    wire::Ack ack;
    if (header.type != wire::Type::kAck || !wire::decode_ack(body, ack)) return;
    seen.cack = ack.cack;
    seen.cpsn_limit = ack.cpsn_limit;
    return;
  }
  seen.pseq[header.path] = header.pseq;
  wire::Data data;
  wire::In payload;
  if (!wire::decode_data(body, header, data, payload)) return;
  wire::StreamControl control;
  if (data.op == wire::DataOp::kStreamOpen && wire::decode_stream_control(payload, control)) {
    seen.incarnation = control.incarnation;
  }
  if (static_cast<int32_t>(data.cpsn - seen.cpsn) > 0 || seen.cpsn == 0) seen.cpsn = data.cpsn;
}

inline std::vector<std::byte> signed_copy(std::span<const std::byte> body) {
  std::vector<std::byte> out(body.begin(), body.end());
  out.resize(out.size() + wire::kTrailerBytes);
  soak::Network::resign(out);
  return out;
}

// At once, as if `from` had sent it on this plane.
inline void deliver(Endpoint& from, Endpoint& to, uint32_t plane, std::vector<std::byte> bytes) {
  const auto size = static_cast<uint32_t>(bytes.size());
  to.receive({plane, {from.gid(plane), 1024}, Ecn::kNotEct}, std::move(bytes), size);
}

}  // namespace mroce::fuzz
