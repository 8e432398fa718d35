// Rocev2Transport against a NIC and wires with loss; presets and settings.
#include "sim/rocev2_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/base/rng.h"
#include "core/rocev2/codec.h"
#include "sim/test_run.h"

namespace mroce::sim {
namespace {

constexpr uint64_t kRate = 400'000'000'000;
constexpr SimTime kWire = nanos(2000);

struct Observer : FlowObserver {
  void flow_finished(SimTime now, uint32_t flow) override { finished[flow] = now; }
  void flow_received(SimTime now, uint32_t flow) override { received[flow] = now; }
  std::map<uint32_t, SimTime> finished, received;
};

// Hosts that reach each other directly; each port sends one packet at a time, to the same port over there.
class Wires {
 public:
  Wires(uint32_t hosts, const Rocev2Options& options, double loss = 0, WireSize size = {}, uint32_t ports = 1)
      : loss_(loss), rng_(5) {
    for (uint32_t i = 0; i < hosts; ++i) {
      const HostContext context{i, ports, kRate, 4096, size, 2 * kWire + nanos(100), i + 1, pool_, observer_};
      hosts_.push_back({std::make_unique<Rocev2Transport>(context, options), std::vector<SimTime>(ports)});
    }
  }
  ~Wires() {
    for (auto& [when, packet] : flying_) pool_.release(packet);
  }

  void start(uint32_t index, uint32_t from, uint32_t to, uint64_t bytes, uint8_t priority = 0) {
    Flow flow;
    flow.id = index;
    flow.source = from;
    flow.destination = to;
    flow.bytes = bytes;
    flow.priority = priority;
    hosts_[from].transport->start(now_, index, flow);
  }

  // Until nothing happens any more.
  void run() {
    for (;;) {
      for (uint32_t i = 0; i < hosts_.size(); ++i) {
        for (uint32_t port = 0; port < hosts_[i].free_at.size(); ++port) pull(i, port);
      }
      SimTime next = flying_.empty() ? kEndOfTime : flying_.begin()->first.first;
      for (const auto& host : hosts_) {
        next = std::min(next, host.transport->deadline());
        for (const SimTime free_at : host.free_at) {
          if (free_at > now_) next = std::min(next, free_at);
        }
      }
      if (next == kEndOfTime) return;
      ASSERT_LT(next, microseconds(100'000'000)) << "it does not end";
      now_ = std::max(now_, next);
      for (auto& host : hosts_) {
        if (host.transport->deadline() <= now_) host.transport->on_timer(now_);
      }
      while (!flying_.empty() && flying_.begin()->first.first <= now_) arrive();
    }
  }

  TransportCounters sum() const {
    TransportCounters all;
    for (const auto& host : hosts_) all += host.transport->counters();
    return all;
  }
  PacketPool& pool() { return pool_; }
  Rocev2Transport& host(uint32_t i) { return *hosts_[i].transport; }
  Observer& observer() { return observer_; }
  SimTime now() const { return now_; }

  std::vector<Packet> log;  // of everything sent
  bool log_packets = false;
  bool mark = false;

 private:
  struct Host {
    std::unique_ptr<Rocev2Transport> transport;
    std::vector<SimTime> free_at;  // by port
  };
  void pull(uint32_t i, uint32_t port) {
    Host& host = hosts_[i];
    if (host.free_at[port] > now_) return;
    Packet* packet = host.transport->pull(now_, port);
    if (packet == nullptr) return;
    packet->plane = static_cast<uint8_t>(port);
    if (log_packets) log.push_back(*packet);
    host.free_at[port] = now_ + serialisation(packet->bytes, kRate);
    if (rng_.chance(loss_)) {
      pool_.release(packet);
      return;
    }
    if (mark && packet->ecn == Ecn::kEct0) packet->ecn = Ecn::kCe;
    flying_.emplace(std::make_pair(host.free_at[port] + kWire, sequence_++), packet);
  }
  void arrive() {
    Packet* packet = flying_.begin()->second;
    flying_.erase(flying_.begin());
    hosts_[packet->destination].transport->receive(now_, packet->plane, *packet);
    pool_.release(packet);
  }

  double loss_;
  Rng rng_;
  PacketPool pool_;
  Observer observer_;
  std::vector<Host> hosts_;
  std::map<std::pair<SimTime, uint64_t>, Packet*> flying_;
  uint64_t sequence_ = 0;
  SimTime now_ = 0;
};

Rocev2Options preset(std::string_view name) {
  return *rocev2_preset(name);
}

TEST(Rocev2Transport, a_flow_takes_its_bytes_at_line_rate_and_one_round_trip) {
  for (const auto& each : rocev2_presets()) {
    Rocev2Options options = preset(each.name);
    options.window_bdp *= 2;  // this wire's base_rtt leaves out serialisation
    Wires wires(2, options);
    constexpr uint64_t kPackets = 500;
    wires.start(0, 0, 1, kPackets * 4096);
    wires.run();
    ASSERT_EQ(wires.observer().finished.count(0), 1u) << each.name;
    // 4096 + BTH 12 + iCRC 4 + 66 each, RETH 16 once; then the ACK: 12 + 4 + 4 + 66.
    const SimTime line = serialisation(kPackets * (4096 + 82) + 16, kRate);
    const SimTime best = line + 2 * kWire + serialisation(86, kRate);
    EXPECT_GE(wires.observer().finished[0], best) << each.name;
    EXPECT_LE(wires.observer().finished[0], best + nanos(100)) << each.name;
    EXPECT_GE(wires.observer().received[0], line + kWire) << each.name;
    EXPECT_EQ(wires.sum().payload_bytes, kPackets * 4096) << each.name;
    EXPECT_EQ(wires.sum().retransmissions, 0u) << each.name;
  }
}

TEST(Rocev2Transport, packets_have_real_headers_and_the_classes_that_were_asked_for) {
  Rocev2Options options = preset("rocev2");
  options.ack_priority = 5;
  Wires wires(2, options);
  wires.log_packets = wires.mark = true;
  wires.start(7, 0, 1, 10'000);
  wires.run();
  ASSERT_GE(wires.log.size(), 5u);
  const Packet& first = wires.log.front();
  EXPECT_EQ(first.kind, PacketKind::kData);
  EXPECT_EQ(first.priority, 3);
  EXPECT_EQ(first.ecn, Ecn::kEct0);
  EXPECT_EQ(first.payload, 4096u);
  EXPECT_EQ(first.bytes, 4096u + 12 + 16 + 4 + 66);
  EXPECT_EQ(first.flow, 7u);
  std::map<PacketKind, int> kinds;
  for (const Packet& packet : wires.log) {
    ++kinds[packet.kind];
    if (packet.kind == PacketKind::kCnp) {
      EXPECT_EQ(packet.priority, 6);
    }
    if (packet.kind == PacketKind::kAck) {
      EXPECT_EQ(packet.priority, 5);
    }
    if (packet.kind != PacketKind::kData) {
      EXPECT_EQ(packet.ecn, Ecn::kNotEct);
    }
    EXPECT_EQ(packet.hash == first.hash, packet.source == 0);
  }
  EXPECT_EQ(kinds[PacketKind::kData], 3);
  EXPECT_EQ(kinds[PacketKind::kCnp], 1);
  EXPECT_GE(kinds[PacketKind::kAck], 1);
}

TEST(Rocev2Transport, a_fixed_header_replaces_the_real_one) {
  Wires wires(2, preset("ib"), 0, WireSize{66, 64});
  wires.log_packets = true;
  wires.start(0, 0, 1, 4096);
  wires.run();
  EXPECT_EQ(wires.log.front().bytes, 4160u);
  EXPECT_EQ(wires.log.front().ecn, Ecn::kNotEct);
  EXPECT_EQ(wires.log.back().bytes, 64u);
}

TEST(Rocev2Transport, every_preset_brings_every_byte_through_loss) {
  for (const auto& each : rocev2_presets()) {
    Wires wires(4, preset(each.name), 0.01);
    uint64_t bytes = 0;
    for (uint32_t flow = 0; flow < 24; ++flow) {
      bytes += 1 + flow * 9973;
      wires.start(flow, flow % 4, (flow + 1 + flow / 8) % 4, 1 + flow * 9973);
    }
    wires.run();
    EXPECT_EQ(wires.observer().finished.size(), 24u) << each.name;
    EXPECT_EQ(wires.observer().received.size(), 24u) << each.name;
    EXPECT_EQ(wires.sum().payload_bytes, bytes) << each.name;
    EXPECT_GT(wires.sum().retransmissions, 0u) << each.name;
    EXPECT_EQ(wires.pool().in_use(), 0u) << each.name;
  }
}

TEST(Rocev2Transport, an_empty_flow_a_flow_to_itself_and_one_of_several_messages_finish) {
  Rocev2Options options = preset("rocev2");
  options.message_bytes = 10'000;  // two packets each
  Wires wires(2, options);
  wires.log_packets = true;
  wires.start(0, 0, 1, 0);
  wires.start(1, 1, 1, 1 << 20);
  wires.start(2, 1, 0, 100'000);
  wires.run();
  EXPECT_THAT(wires.observer().finished, testing::SizeIs(3));
  EXPECT_THAT(wires.observer().received, testing::SizeIs(3));
  EXPECT_EQ(wires.sum().data_packets, (100'000u + 4095) / 4096);
}

TEST(Rocev2Transport, a_lost_last_acknowledgement_is_repeated_after_the_receiver_forgot_the_flow) {
  Rocev2Options options = preset("ib");
  options.timeout = 8;  // 1 ms, far beyond the receiver's memory
  Wires wires(3, options, 0.3);
  for (uint32_t flow = 0; flow < 200; ++flow) wires.start(flow, flow % 2, 2, 4096);
  wires.run();
  EXPECT_EQ(wires.observer().finished.size() + wires.host(0).failed_flows() + wires.host(1).failed_flows(),
            200u);
  EXPECT_GT(wires.observer().finished.size(), 195u);
  EXPECT_EQ(wires.observer().received.size(), 200u);
  EXPECT_EQ(wires.sum().payload_bytes, 200u * 4096);
  EXPECT_GT(wires.sum().duplicates, 0u);
}

TEST(Rocev2Transport, flows_spread_over_the_ports_of_a_host_and_each_stays_on_one) {
  Wires wires(2, preset("rocev2"), 0.001, {}, 4);
  wires.log_packets = true;
  for (uint32_t flow = 0; flow < 32; ++flow) wires.start(flow, flow % 2, 1 - flow % 2, 100'000);
  wires.run();
  EXPECT_THAT(wires.observer().finished, testing::SizeIs(32));
  std::map<uint32_t, uint64_t> packets;
  for (const Packet& packet : wires.log) ++packets[packet.plane];
  EXPECT_THAT(packets, testing::SizeIs(4));
  EXPECT_EQ(wires.sum().payload_bytes, 32u * 100'000);
  EXPECT_EQ(wires.sum().out_of_order > 0, wires.sum().nacks > 0);
}

TEST(Rocev2Transport, the_same_seed_gives_the_same_run) {
  const auto run = [] {
    Wires wires(4, preset("irn"), 0.02);
    for (uint32_t flow = 0; flow < 12; ++flow) wires.start(flow, flow % 4, (flow + 1) % 4, 300'000);
    wires.run();
    return std::make_pair(wires.observer().finished, wires.sum().data_packets);
  };
  EXPECT_EQ(run(), run());
}

TEST(Rocev2Options, settings_are_read_back_as_they_were_set) {
  Rocev2Options options = preset("rocev2");
  for (const auto& key : rocev2_keys()) {
    const std::string value = rocev2_value(options, key.name);
    ASSERT_TRUE(set_rocev2(options, key.name, value)) << key.name << "=" << value;
    EXPECT_EQ(rocev2_value(options, key.name), value) << key.name;
  }
  ASSERT_TRUE(set_rocev2(options, "nack_interval_us=2.5"));
  EXPECT_EQ(options.loss.nak_interval, Nanos{2500});
  ASSERT_TRUE(set_rocev2(options, "ai_mbps=40"));
  EXPECT_EQ(options.dcqcn.ai_bps, 40e6);
  ASSERT_TRUE(set_rocev2(options, "selective_repeat=1"));
  EXPECT_EQ(options.loss.recovery, rocev2::Recovery::kSelectiveRepeat);
}

TEST(Rocev2Options, what_is_not_understood_is_an_error_that_helps) {
  Rocev2Options options;
  EXPECT_THAT(set_rocev2(options, "speed=1").error(), testing::HasSubstr("time_reset_us"));
  EXPECT_THAT(set_rocev2(options, "threshold=1.5").error(), testing::HasSubstr("whole number"));
  EXPECT_THAT(set_rocev2(options, "g=2").error(), testing::HasSubstr("from 0 to 1"));
  EXPECT_THAT(set_rocev2(options, "g=").error(), testing::HasSubstr("not ''"));
  EXPECT_THAT(set_rocev2(options, "g=nan").error(), testing::HasSubstr("nan"));
  EXPECT_THAT(set_rocev2(options, "g").error(), testing::HasSubstr("key=value"));
  EXPECT_THAT(rocev2_preset("tcp").error(), testing::HasSubstr("irn"));
}

// Zhu et al. (SIGCOMM 2015, section 6) on their 40 Gbit/s: flows through one bottleneck share it equally and
// keep it busy, and one that begins later gets its share from those that are there.
class DcqcnOnFabric : public testing::Test {
 protected:
  static constexpr uint64_t kLine = 40'000'000'000;
  static constexpr uint64_t kBytes = 50'000'000;
  static std::vector<Flow> senders(uint32_t count, SimTime apart) {
    std::vector<Flow> flows;
    for (uint32_t i = 0; i < count; ++i) {
      flows.push_back(make_flow(i + 1, i, 15, kBytes, static_cast<SimTime>(i) * apart, 3));
    }
    return flows;
  }
  static RunResult simulate(std::vector<Flow>& flows) {
    LeafSpineSpec spec;
    spec.leaves = spec.hosts_per_leaf = spec.spines = 4;
    spec.host_rate_bps = spec.fabric_rate_bps = kLine;
    RunOptions options;
    options.fabric.pfc.classes = 1 << 3;
    options.fabric.shared.bytes = 12 << 20;
    options.fabric.set_ecn({160'000, 640'000, 0.2});  // 100 and 400 KB at 25 Gbit/s
    const Rocev2Options transport = rocev2_preset("rocev2").value();
    auto result = run(make_leaf_spine(spec).value(), options, flows, [&](const HostContext& context) {
      return std::make_unique<Rocev2Transport>(context, transport);
    });
    EXPECT_TRUE(result && result->complete);
    return std::move(*result);
  }
};

class DcqcnShares : public DcqcnOnFabric, public testing::WithParamInterface<uint32_t> {};

TEST_P(DcqcnShares, of_a_bottleneck_are_equal_and_keep_it_busy) {
  const uint32_t count = GetParam();
  auto flows = senders(count, 0);
  const RunResult result = simulate(flows);
  EXPECT_GT(result.fabric.marks, 0U);
  SimTime first = kEndOfTime, last = 0;
  for (const Flow& flow : flows) {
    first = std::min(first, flow.finished);
    last = std::max(last, flow.finished);
  }
  EXPECT_GT(first, last * 85 / 100) << "equal shares end together";
  const SimTime bound = serialisation(uint64_t{count} * kBytes * 4166 / 4096, kLine);
  EXPECT_GT(last, bound);
  EXPECT_LT(last, bound * 120 / 100);
}
INSTANTIATE_TEST_SUITE_P(senders, DcqcnShares, testing::Values(2U, 4U, 8U));

TEST_F(DcqcnOnFabric, gives_a_late_flow_its_share) {
  const SimTime apart = microseconds(5000);
  auto flows = senders(2, apart);
  simulate(flows);
  // Alone for 5 ms, then halves until the first is done: both take 2 B/C - 5 ms, and a third more for the
  // bandwidth that nobody uses while rates climb back after the newcomer's burst at line rate.
  const SimTime fair = 2 * serialisation(kBytes * 4166 / 4096, kLine) - apart;
  const SimTime old = flows[0].finished - flows[0].start, late = flows[1].finished - flows[1].start;
  EXPECT_LT(std::max(old, late), fair * 140 / 100);
  EXPECT_GT(std::min(old, late), std::max(old, late) * 80 / 100)
      << "a late flow that starves, or starves the other";
}

TEST(Rocev2OnFabric, threads_do_not_change_what_it_does) {
  LeafSpineSpec spec;
  spec.leaves = spec.hosts_per_leaf = 4;
  spec.spines = 2;
  const Topology topology = make_leaf_spine(spec).value();
  std::vector<Flow> flows;
  for (uint32_t i = 0; i < 16; ++i) {
    // All to one host of the other half: marks, CNPs, pauses.
    flows.push_back(make_flow(i + 1, i, i < 8 ? 15 : 0, 200'000 + 1000 * i, 0, 3));
  }
  std::erase_if(flows, [](const Flow& flow) { return flow.source == flow.destination; });
  RunOptions options;
  options.fabric.pfc.classes = 1 << 3;
  options.fabric.shared.bytes = 2 << 20;
  options.fabric.set_ecn({100'000, 400'000, 0.2});
  const Rocev2Options transport = rocev2_preset("rocev2").value();
  std::string first;
  for (const uint32_t threads : {1U, 2U, 4U}) {
    options.threads = threads;
    auto copy = flows;
    const auto result = run(topology, options, copy, [&](const HostContext& context) {
      return std::make_unique<Rocev2Transport>(context, transport);
    });
    ASSERT_TRUE(result) << result.error();
    ASSERT_TRUE(result->complete) << result->trouble;
    EXPECT_GT(result->fabric.marks, 0U);
    EXPECT_EQ(result->partitions, threads);
    const std::string print = fingerprint(*result, copy);
    if (threads == 1) first = print;
    EXPECT_EQ(print, first) << threads;
  }
}

}  // namespace
}  // namespace mroce::sim
