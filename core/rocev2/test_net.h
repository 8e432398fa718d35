// A little network for tests: hosts with one engine each around one switch, in virtual time. Each host has a
// link to the switch; the switch has a queue for each host, marks by its length (RED between kmin and kmax)
// and drops beyond its limit. Loss, duplication and reordering happen on the way into the switch. Everything
// random comes from one seed.
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/base/rng.h"
#include "core/rocev2/codec.h"
#include "core/rocev2/engine.h"

namespace mroce::rocev2 {

// Addresses are those of the process.
class HostMemory : public Memory {
 public:
  void place(uint64_t addr, std::span<const std::byte> bytes) override {
    placed_bytes += bytes.size();
    if (!bytes.empty()) std::memcpy(reinterpret_cast<void*>(addr), bytes.data(), bytes.size());
  }
  void place_tail(uint64_t addr, std::span<const std::byte> bytes) override { place(addr, bytes); }
  const std::byte* fetch(uint64_t addr, uint32_t) override {
    return reinterpret_cast<const std::byte*>(addr);
  }
  uint64_t compare_swap(uint64_t addr, uint64_t compare, uint64_t swap) override {
    auto* word = reinterpret_cast<uint64_t*>(addr);
    const uint64_t before = *word;
    if (before == compare) *word = swap;
    ++atomics;
    return before;
  }
  uint64_t fetch_add(uint64_t addr, uint64_t add) override {
    auto* word = reinterpret_cast<uint64_t*>(addr);
    const uint64_t before = *word;
    *word += add;
    ++atomics;
    return before;
  }
  uint64_t placed_bytes = 0;
  uint64_t atomics = 0;
};

struct NetOptions {
  double rate_bps = 100e9;  // of every link
  Nanos delay{1000};        // of every link
  double loss = 0;
  double duplicate = 0;
  double reorder = 0;  // chance of up to reorder_by of extra delay
  Nanos reorder_by{3000};
  uint64_t queue_bytes = UINT64_MAX;
  double kmin = 1e18, kmax = 2e18, pmax = 1;
  uint64_t seed = 1;
};

struct NetPacket {
  std::vector<std::byte> bytes;  // headers, payload, padding
  uint32_t virtual_behind = 0;
  uint32_t from = 0;
  uint32_t to = 0;
  Ecn ecn = Ecn::kNotEct;
  uint64_t wire_bytes() const { return bytes.size() + virtual_behind + 70; }
  Headers headers() const {
    const auto h = virtual_behind != 0 ? decode(bytes, virtual_behind) : decode_whole(bytes);
    return h ? *h : Headers{};
  }
};

class TestNet {
 public:
  TestNet(uint32_t hosts, EngineConfig config, NetOptions options) : options_(options), rng_(options.seed) {
    for (uint32_t i = 0; i < hosts; ++i) {
      auto& host = hosts_.emplace_back(std::make_unique<Host>());
      config.seed = options.seed * 1000 + i;
      host->engine = std::make_unique<Engine>(config, host->memory);
    }
  }

  Engine& engine(uint32_t i) { return *hosts_[i]->engine; }
  HostMemory& memory(uint32_t i) { return hosts_[i]->memory; }
  Time now() const { return time_from_ns(now_ps_ / 1000); }
  uint64_t max_queue(uint32_t i) const { return hosts_[i]->max_queue; }

  // Both ends of a connection between hosts a and b; returns their numbers.
  std::pair<uint32_t, uint32_t> connect(uint32_t a, uint32_t b, QpParams pa = {}, QpParams pb = {}) {
    pa.peer = b;
    pb.peer = a;
    pa.qpn = next_qpn_++;
    pb.qpn = next_qpn_++;
    pa.dest_qpn = pb.qpn;
    pb.dest_qpn = pa.qpn;
    pa.sq_psn = pb.rq_psn = static_cast<uint32_t>(rng_.next() & kPsnMask24);
    pb.sq_psn = pa.rq_psn = static_cast<uint32_t>(rng_.next() & kPsnMask24);
    return {*engine(a).create_qp(now(), pa), *engine(b).create_qp(now(), pb)};
  }

  // Runs until `done` answers true, nothing is left to do, or `limit` is reached. True if done.
  bool run(const std::function<bool()>& done, Nanos limit = seconds(10)) {
    const int64_t end = now_ps_ + limit.count() * 1000;
    for (;;) {
      for (uint32_t i = 0; i < hosts_.size(); ++i) pump(i);
      if (done()) return true;
      for (uint32_t i = 0; i < hosts_.size(); ++i) pump(i);  // `done` may have posted something
      const int64_t next = next_event();
      if (next > end) {
        now_ps_ = end;
        return false;
      }
      now_ps_ = std::max(now_ps_, next);
      step();
    }
  }
  bool run_for(Nanos time) {
    return run([] { return false; }, time);
  }

  // Looks at each packet as it leaves its host; true: it is lost.
  std::function<bool(const NetPacket&)> filter;

 private:
  static constexpr uint32_t kPsnMask24 = 0xffffff;
  struct Host {
    HostMemory memory;
    std::unique_ptr<Engine> engine;
    int64_t link_free_ps = 0;
    int64_t port_free_ps = 0;
    uint64_t queued = 0;
    uint64_t max_queue = 0;
  };
  struct Happening {
    uint32_t host = 0;
    int kind = 0;  // 0 wake, 1 into the switch, 2 out of the queue, 3 to the host
    NetPacket packet;
  };

  int64_t serialise(uint64_t bytes) const {
    return static_cast<int64_t>(static_cast<double>(bytes) * 8e12 / options_.rate_bps);
  }
  void at(int64_t ps, Happening what) { events_.emplace(std::make_pair(ps, sequence_++), std::move(what)); }

  int64_t next_event() const {
    int64_t next = events_.empty() ? INT64_MAX : events_.begin()->first.first;
    for (const auto& host : hosts_) {
      const Time deadline = host->engine->next_deadline();
      if (deadline != kNever) next = std::min(next, ns_of(deadline) * 1000);
    }
    return next;
  }
  void step() {
    for (auto& host : hosts_) {
      if (host->engine->next_deadline() <= now()) host->engine->on_timeout(now());
    }
    while (!events_.empty() && events_.begin()->first.first <= now_ps_) {
      Happening what = std::move(events_.begin()->second);
      events_.erase(events_.begin());
      happen(std::move(what));
    }
  }

  void pump(uint32_t i) {
    Host& host = *hosts_[i];
    if (host.link_free_ps > now_ps_) return;
    TxPacket out;
    if (!host.engine->poll_transmit(now(), out)) return;
    NetPacket packet;
    packet.bytes.assign(out.header.begin(), out.header.begin() + out.header_bytes);
    for (uint32_t s = 0; s < out.slice_count; ++s) {
      packet.bytes.insert(packet.bytes.end(), out.slices[s].data, out.slices[s].data + out.slices[s].length);
    }
    if (out.slice_count == 0) {
      packet.virtual_behind = out.payload + out.pad;
    } else {
      packet.bytes.resize(packet.bytes.size() + out.pad);
    }
    packet.from = i;
    packet.to = static_cast<uint32_t>(out.peer);
    packet.ecn = out.ect ? Ecn::kEct0 : Ecn::kNotEct;
    host.link_free_ps = now_ps_ + serialise(packet.wire_bytes());
    at(host.link_free_ps, {i, 0, {}});
    disturb(host.link_free_ps + options_.delay.count() * 1000, std::move(packet));
  }
  void disturb(int64_t when, NetPacket packet) {
    if (filter && filter(packet)) return;
    if (rng_.chance(options_.loss)) return;
    const auto extra = [&] {
      if (!rng_.chance(options_.reorder)) return int64_t{0};
      return static_cast<int64_t>(rng_.below(static_cast<uint64_t>(options_.reorder_by.count()))) * 1000;
    };
    if (rng_.chance(options_.duplicate)) at(when + extra(), {packet.to, 1, packet});
    const uint32_t to = packet.to;
    at(when + extra(), {to, 1, std::move(packet)});
  }

  void happen(Happening what) {
    Host& host = *hosts_[what.host];
    if (what.kind == 1) {
      enqueue(host, std::move(what));
    } else if (what.kind == 2) {
      host.queued -= what.packet.wire_bytes();
      what.kind = 3;
      at(now_ps_ + options_.delay.count() * 1000, std::move(what));
    } else if (what.kind == 3) {
      RxPacket rx;
      rx.peer = what.packet.from;
      rx.ecn = what.packet.ecn;
      rx.bytes = what.packet.bytes;
      rx.virtual_behind = what.packet.virtual_behind;
      host.engine->on_packet(now(), rx);
    }
  }
  void enqueue(Host& host, Happening what) {
    const uint64_t bytes = what.packet.wire_bytes();
    if (host.queued + bytes > options_.queue_bytes) return;
    const auto length = static_cast<double>(host.queued);
    double mark = 0;
    if (length > options_.kmax)
      mark = 1;
    else if (length > options_.kmin)
      mark = options_.pmax * (length - options_.kmin) / (options_.kmax - options_.kmin);
    if (what.packet.ecn == Ecn::kEct0 && rng_.chance(mark)) what.packet.ecn = Ecn::kCe;
    host.queued += bytes;
    host.max_queue = std::max(host.max_queue, host.queued);
    host.port_free_ps = std::max(host.port_free_ps, now_ps_) + serialise(bytes);
    what.kind = 2;
    at(host.port_free_ps, std::move(what));
  }

  NetOptions options_;
  Rng rng_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::map<std::pair<int64_t, uint64_t>, Happening> events_;
  int64_t now_ps_ = 0;
  uint64_t sequence_ = 0;
  uint32_t next_qpn_ = 100;
};

}  // namespace mroce::rocev2
