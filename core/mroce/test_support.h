// Rig: an engine without network and peer for unit tests of its parts, with connections made by hand.
//
// Tests call the steps of the state machine (Engine::Impl) one at a time and look at the structures between
// them. What an engine does as a whole is tested in tests/scenarios.
#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <vector>

#include "core/mroce/engine_impl.h"

namespace mroce::test {

// Memory whose every byte tells its address; what is placed is forgotten.
class PatternMemory final : public Memory {
 public:
  static std::byte at(uint64_t addr) { return static_cast<std::byte>((addr * 0x9E3779B97F4A7C15ULL) >> 56); }

  void place(uint64_t, std::span<const std::byte> bytes) override { placed_bytes += bytes.size(); }
  void place_tail(uint64_t, std::span<const std::byte> bytes) override { placed_bytes += bytes.size(); }
  const std::byte* fetch(uint64_t addr, uint32_t length) override {
    auto& bytes = fetched_.emplace_back(length);
    for (uint32_t i = 0; i < length; ++i) bytes[i] = at(addr + i);
    return bytes.data();
  }
  uint64_t compare_swap(uint64_t, uint64_t, uint64_t) override { return 0; }
  uint64_t fetch_add(uint64_t, uint64_t) override { return 0; }
  void forget() { fetched_.clear(); }  // what was fetched is no longer valid

  uint64_t placed_bytes = 0;

 private:
  std::vector<std::vector<std::byte>> fetched_;
};

class Rig {
 public:
  static constexpr uint32_t kPorts = 4;

  explicit Rig(const std::function<void(EngineConfig&)>& tweak = {}) : engine(config(tweak), memory) {}

  // 10.0.<plane>.<host>
  static Gid address(uint8_t plane, uint8_t host) {
    Gid gid;
    gid.raw[10] = gid.raw[11] = 0xff;
    gid.raw[12] = 10;
    gid.raw[14] = plane;
    gid.raw[15] = host;
    return gid;
  }

  // An open connection to `host` whose paths are all ACTIVE. `peer_planes` in the order of the peer's INIT.
  Connection& open(uint32_t paths, const std::vector<uint8_t>& peer_planes = {0}, uint8_t host = 2) {
    Connection& c = **engine.connect(now, 0, {address(0, host), 61440});
    wire::Init init;
    init.scid = 0x75u + host;
    init.endpoint_id.fill(static_cast<uint8_t>(0x20 + host));
    init.listen_port = 61440;
    init.cpsn_window = 4096;
    init.first_cpsn = 5000;
    init.first_pseq = 6000;
    init.receive_buffer = 4 << 20;
    for (const uint8_t plane : peer_planes) init.ports[init.nports++] = {address(plane, host), 120, 0};
    c.payload_mtu = 1024;
    engine.accept_peer(now, c, init);
    engine.make_paths(now, c, paths);
    engine.became_open(now, c);
    for (Path& p : c.paths) {
      p.state = PathState::kActive;
      p.probe_at = kNever;
    }
    return c;
  }

  // One packet of no stream goes out on `p`; returns its PSEQ.
  uint64_t fly(Connection& c, Path& p, uint32_t bytes = 1000) {
    const uint64_t cpsn = c.tx.end();
    c.tx.push(TxPacket{});
    engine.note_sent(now, c, p, cpsn, bytes);
    return p.sent.end() - 1;
  }
  void fly(Connection& c, Path& p, int packets) {
    for (int i = 0; i < packets; ++i) fly(c, p);
  }

  QueuePair& make_qp(const QpCap& cap = {16, 16, 2, 2, 64}) {
    QpInit init;
    if (!pd_) {
      pd_ = PdHandle{++engine.handle_counter};
      engine.pds[pd_.value] = {};
    }
    init.pd = pd_;
    init.send_cq = init.recv_cq = make_cq();
    init.cap = cap;
    return *engine.find(*engine.create_qp(init));
  }
  PdHandle pd() const { return pd_; }
  CqHandle make_cq() {
    const CqHandle handle{++engine.handle_counter};
    engine.cqs[handle.value] = std::unique_ptr<Cq>(new Cq{handle, CompletionQueue(4096, 0)});
    return handle;
  }
  // The queue pair in RTS, its sending half open on `c` as after an ACCEPT.
  void open_stream(Connection& c, QueuePair& qp, uint32_t credit = 1000, uint32_t rd_limit = 16) {
    qp.state = QpState::kRts;
    qp.attr.dgid = c.remote.ip;
    qp.attr.dest_qpn = 0x99;
    qp.attr.max_rd_atomic = 16;
    qp.tx.conn = &c;
    qp.tx.state = TxHalf::State::kOpen;
    qp.tx.incarnation = 1;
    qp.tx.credit_limit = credit;
    qp.tx.rd_limit = rd_limit;
  }
  std::vector<Wc> completions(QueuePair& qp) {
    std::array<Wc, 64> out;
    std::vector<Wc> all;
    while (const uint32_t n = qp.send_cq->queue.poll(out))
      all.insert(all.end(), out.begin(), out.begin() + n);
    return all;
  }

  PatternMemory memory;
  Engine::Impl engine;
  Time now = time_from_ns(1000000000);

 private:
  static EngineConfig config(const std::function<void(EngineConfig&)>& tweak) {
    EngineConfig config;
    for (uint8_t plane = 0; plane < kPorts; ++plane) {
      LocalPort port;
      port.address = address(plane, 1);
      port.prefix_bits = 120;
      config.ports.push_back(port);
    }
    config.endpoint_id.fill(0x11);
    if (tweak) tweak(config);
    return config;
  }
  PdHandle pd_;
};

}  // namespace mroce::test
