#include "sim/tcp_transport.h"

#include <gtest/gtest.h>

#include "core/base/rng.h"
#include "sim/flow_results.h"
#include "sim/tcp_test_net.h"

namespace mroce::sim {
namespace {

Flow flow(uint32_t source, uint32_t destination, uint64_t bytes, SimTime start = 0) {
  Flow out;
  out.source = source;
  out.destination = destination;
  out.bytes = bytes;
  out.start = start;
  return out;
}

constexpr SimTime kSecond = microseconds(1'000'000);

TEST(TcpTransport, slow_start_doubles_each_round_trip) {
  TcpOptions tcp;
  tcp.quick_acks = 65536;
  TestNetOptions options;
  options.delay = microseconds(250);  // the window never fills a round trip
  std::vector<uint64_t> rounds;
  TestNet net(2, options, tcp, {flow(0, 1, uint64_t{1448} * (10 + 20 + 40 + 80 + 160))});
  net.hook = [&](const Packet& packet) {
    if (packet.payload != 0) {
      const auto round = static_cast<size_t>(net.now() / net.base_rtt());
      if (rounds.size() <= round) rounds.resize(round + 1);
      ++rounds[round];
    }
    return TestNet::Fate{};
  };
  net.run(kSecond);
  ASSERT_EQ(net.left(), 0u);
  EXPECT_EQ(rounds, (std::vector<uint64_t>{10, 20, 40, 80, 160}));
  EXPECT_LT(net.flows[0].finished, 5 * net.base_rtt() + microseconds(60));
}

TEST(TcpTransport, one_flow_fills_the_link) {
  constexpr uint64_t kBytes = 100 << 20;
  TestNet net(2, {}, {}, {flow(0, 1, kBytes)});
  net.run(kSecond);
  ASSERT_EQ(net.left(), 0u);
  const IdealPath ideal{
      .rate_bps = 100'000'000'000, .payload_mtu = 1448, .packet_overhead = 98, .base_rtt = net.base_rtt()};
  // Slow start wastes some round trips until the window is a bandwidth-delay product.
  EXPECT_GE(net.flows[0].finished, ideal.fct(kBytes));
  EXPECT_LT(net.flows[0].finished, ideal.fct(kBytes) + 6 * net.base_rtt());
  const TransportCounters counters = net.counters();
  EXPECT_EQ(counters.payload_bytes, kBytes);
  EXPECT_EQ(counters.data_packets, (kBytes + 1447) / 1448);
  EXPECT_EQ(counters.retransmissions, 0u);
  EXPECT_EQ(counters.timeouts, 0u);
  EXPECT_LT(counters.acks, counters.data_packets / 2 + 20);
}

TEST(TcpTransport, a_short_flow_takes_a_round_trip) {
  TestNet net(2, {}, {}, {flow(0, 1, 1), flow(1, 0, 1448, kSecond / 4)});
  net.run(kSecond);
  EXPECT_LE(net.flows[0].finished, net.base_rtt());
  EXPECT_LT(net.flows[0].received, net.flows[0].finished);
  EXPECT_EQ(net.flows[1].finished, kSecond / 4 + net.base_rtt());
}

// Loses the segments of the list, each once.
std::function<TestNet::Fate(const Packet&)> lose(std::vector<uint32_t> segments) {
  return [segments = std::move(segments)](const Packet& packet) mutable {
    if (packet.payload == 0) return TestNet::Fate{};
    const uint32_t index = TcpHeader::read(packet).sequence / 1448;
    const auto it = std::find(segments.begin(), segments.end(), index);
    if (it == segments.end()) return TestNet::Fate{};
    segments.erase(it);
    return TestNet::Fate{.lost = true};
  };
}

TcpOptions variant(int number) {
  TcpOptions tcp;
  tcp.sack = (number & 1) != 0;
  tcp.rack = (number & 2) != 0;
  tcp.control = (number & 4) != 0 ? TcpControl::kDctcp : TcpControl::kReno;
  return tcp;
}

class Variants : public testing::TestWithParam<int> {};

TEST_P(Variants, one_loss_costs_no_timeout) {
  TestNet net(2, {}, variant(GetParam()), {flow(0, 1, 1 << 20)});
  net.hook = lose({30});
  net.run(kSecond);
  ASSERT_EQ(net.left(), 0u);
  EXPECT_EQ(net.counters().timeouts, 0u);
  EXPECT_EQ(net.counters().retransmissions, 1u);
  EXPECT_LT(net.flows[0].finished, microseconds(1000));
}

TEST_P(Variants, several_losses_in_a_window_cost_no_timeout) {
  TestNet net(2, {}, variant(GetParam()), {flow(0, 1, 1 << 20)});
  net.hook = lose({100, 103, 104, 120, 140});
  net.run(kSecond);
  ASSERT_EQ(net.left(), 0u);
  EXPECT_EQ(net.counters().timeouts, 0u);
  EXPECT_EQ(net.counters().retransmissions, 5u);
  EXPECT_EQ(net.counters().duplicates, 0u);
  EXPECT_LT(net.flows[0].finished, microseconds(1500));
}

// Loss, reordering and duplication of data and acknowledgements.
TEST_P(Variants, delivers_every_byte_once_whatever_happens_on_the_way) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    Rng rng(seed);
    TcpOptions tcp = variant(GetParam());
    tcp.rto_min = microseconds(500);
    tcp.delayed_ack = microseconds(100);
    std::vector<Flow> flows;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < 12; ++i) {
      flows.push_back(flow(i % 4, (i + 1 + i / 4) % 4, rng.between(1, 400'000),
                           microseconds(static_cast<int64_t>(rng.below(500)))));
      bytes += flows.back().bytes;
    }
    TestNet net(4, {.queue_bytes = 200'000, .mark_bytes = 60'000}, tcp, flows);
    const double loss = rng.uniform() * 0.1, late = rng.uniform() * 0.1, twice = rng.uniform() * 0.1;
    net.hook = [&](const Packet&) {
      return TestNet::Fate{.lost = rng.chance(loss),
                           .twice = rng.chance(twice),
                           .late = rng.chance(late) ? static_cast<SimTime>(rng.below(microseconds(60))) : 0};
    };
    net.run(100 * kSecond);
    ASSERT_EQ(net.left(), 0u) << "seed " << seed;
    EXPECT_EQ(net.counters().payload_bytes, bytes) << "seed " << seed;
    for (const Flow& each : net.flows) EXPECT_LE(each.received, each.finished);
  }
}

INSTANTIATE_TEST_SUITE_P(Tcp, Variants, testing::Range(0, 8), [](const auto& each) {
  return std::string(each.param & 4 ? "dctcp" : "reno") + (each.param & 1 ? "_sack" : "") +
         (each.param & 2 ? "_rack" : "");
});

TEST(TcpTransport, a_lost_tail_is_found_by_a_probe) {
  TcpOptions tcp;
  tcp.quick_acks = 65536;
  TestNet net(2, {}, tcp, {flow(0, 1, 1448 * 30)});
  net.hook = lose({29});
  net.run(kSecond);
  ASSERT_EQ(net.left(), 0u);
  EXPECT_EQ(net.counters().timeouts, 1u);
  // It is alone, so its acknowledgement might be delayed.
  EXPECT_GT(net.flows[0].finished, tcp.tlp_min + tcp.delayed_ack);
  EXPECT_LT(net.flows[0].finished, tcp.tlp_min + tcp.delayed_ack + 8 * net.base_rtt());
}

TEST(TcpTransport, without_probes_a_lost_tail_takes_the_minimal_timeout) {
  TcpOptions tcp;
  tcp.quick_acks = 65536;
  tcp.tlp = false;
  TestNet net(2, {}, tcp, {flow(0, 1, 1448 * 30)});
  net.hook = lose({29});
  net.run(kSecond);
  ASSERT_EQ(net.left(), 0u);
  EXPECT_EQ(net.counters().timeouts, 1u);
  EXPECT_GT(net.flows[0].finished, tcp.rto_min);
  EXPECT_LT(net.flows[0].finished, tcp.rto_min + 5 * net.base_rtt());
}

// K = 65 packets at 10 Gbit/s is the recommendation of the DCTCP paper; a round trip is 100 us.
TEST(TcpTransport, dctcp_keeps_the_queue_near_the_marking_threshold) {
  for (const uint32_t senders : {2U, 8U}) {
    TcpOptions tcp;
    tcp.control = TcpControl::kDctcp;
    TestNetOptions options{.nic_bps = 10'000'000'000, .port_bps = 10'000'000'000, .delay = microseconds(25)};
    const uint64_t packet = 1448 + 98;
    options.mark_bytes = 65 * packet;
    options.queue_bytes = 1000 * packet;
    std::vector<Flow> flows;
    for (uint32_t i = 0; i < senders; ++i) flows.push_back(flow(i + 1, 0, 1ULL << 30));
    TestNet net(senders + 1, options, tcp, flows);
    double sum = 0, count = 0, below = 0;
    uint64_t most = 0;
    const SimTime warm = microseconds(10'000);
    net.on_depth = [&](SimTime now, uint64_t depth) {
      if (now < warm) return;
      sum += static_cast<double>(depth);
      count += 1;
      if (depth == 0) below += 1;
      most = std::max(most, depth);
    };
    net.run(microseconds(60'000));
    const double mean = sum / count / static_cast<double>(packet);
    EXPECT_GT(mean, 25) << senders;
    EXPECT_LT(mean, 80) << senders;
    EXPECT_LT(most, (65 + 20 * senders) * packet) << senders;
    EXPECT_LT(below / count, 0.001) << senders;  // the link never idles
    EXPECT_EQ(net.dropped, 0u);
    std::vector<double> shares;
    for (uint32_t i = 0; i < senders; ++i)
      shares.push_back(static_cast<double>(net.transport(i + 1).counters().data_packets));
    EXPECT_GT(jain_index(shares), 0.95) << senders;
    const double goodput = static_cast<double>(net.transport(0).counters().payload_bytes) * 8 / 0.06;
    EXPECT_GT(goodput, 0.98 * 1e10 * 1448 / 1546) << senders;
  }
}

// Each change of the mark has an acknowledgement of its own, so the sender counts marked bytes exactly.
TEST(TcpTransport, dctcp_tells_which_bytes_were_marked) {
  for (const uint32_t every : {1U, 2U, 5U}) {
    TcpOptions tcp;
    tcp.control = TcpControl::kDctcp;
    tcp.quick_acks = 0;
    tcp.dctcp_gain = 1;  // the estimate is the fraction of the last window
    TestNet net(2, {}, tcp, {flow(0, 1, 1 << 20)});
    uint32_t count = 0;
    uint64_t echoed = 0, told = 0;
    net.hook = [&](Packet& packet) {
      if (packet.payload != 0) {
        if (count++ % every == 0) packet.ecn = Ecn::kCe;
        return TestNet::Fate{};
      }
      const TcpHeader header = TcpHeader::read(packet);
      if ((header.flags & TcpHeader::kEce) != 0) echoed += header.acknowledgement - told;
      told = header.acknowledgement;
      return TestNet::Fate{};
    };
    net.run(kSecond);
    ASSERT_EQ(net.left(), 0u);
    const uint64_t marked = (count + every - 1) / every;
    EXPECT_NEAR(static_cast<double>(echoed) / 1448, static_cast<double>(marked), 1) << every;
  }
}

TEST(TcpTransport, reno_fills_the_queue_that_dctcp_leaves_empty) {
  const auto deepest = [](TcpControl control) {
    TcpOptions tcp;
    tcp.control = control;
    TestNetOptions options{.nic_bps = 10'000'000'000, .port_bps = 10'000'000'000, .delay = microseconds(25)};
    options.mark_bytes = 100'000;
    options.queue_bytes = 500'000;
    TestNet net(3, options, tcp, {flow(1, 0, 1ULL << 30), flow(2, 0, 1ULL << 30)});
    uint64_t most = 0;
    net.on_depth = [&](SimTime now, uint64_t depth) {
      if (now > microseconds(20'000)) most = std::max(most, depth);
    };
    net.run(microseconds(100'000));
    return most;
  };
  EXPECT_GT(deepest(TcpControl::kReno), 480'000u);
  EXPECT_LT(deepest(TcpControl::kDctcp), 200'000u);
}

TEST(TcpTransport, connections_of_a_host_share_its_port_in_turn) {
  std::vector<Flow> flows;
  for (uint32_t i = 1; i < 9; ++i) flows.push_back(flow(0, i, 1 << 20));
  TestNet net(9, {}, {}, flows);
  net.run(kSecond);
  ASSERT_EQ(net.left(), 0u);
  std::vector<double> times;
  for (const Flow& each : net.flows) times.push_back(static_cast<double>(each.finished));
  EXPECT_GT(jain_index(times), 0.9999);
  EXPECT_EQ(net.counters().retransmissions, 0u);
}

TEST(TcpTransport, memory_of_finished_senders_is_used_again) {
  std::vector<Flow> flows;
  for (uint32_t i = 0; i < 300; ++i) flows.push_back(flow(0, 1, 20'000, microseconds(i * 60)));
  TestNet net(2, {}, {}, flows);
  net.run(kSecond);
  ASSERT_EQ(net.left(), 0u);
  EXPECT_EQ(net.transport(0).sender(0), nullptr);
  EXPECT_LT(net.transport(0).memory_bytes(), 16'000u);
}

TEST(TcpTransport, goes_beyond_four_gigabytes) {
  TestNet net(2, {.nic_bps = 800'000'000'000, .port_bps = 800'000'000'000, .mtu = 65536}, {},
              {flow(0, 1, (5ULL << 30) + 5)});
  net.run(kSecond);
  ASSERT_EQ(net.left(), 0u);
  EXPECT_EQ(net.counters().payload_bytes, (5ULL << 30) + 5);
}

TEST(TcpTransport, the_same_input_gives_the_same_run) {
  const auto run = [] {
    TcpOptions tcp;
    tcp.control = TcpControl::kDctcp;
    TestNet net(5, {.queue_bytes = 100'000, .mark_bytes = 30'000}, tcp,
                {flow(1, 0, 3 << 20), flow(2, 0, 3 << 20), flow(3, 0, 3 << 20), flow(4, 0, 3 << 20)});
    net.run(kSecond);
    std::vector<SimTime> out;
    for (const Flow& each : net.flows) out.push_back(each.finished);
    return out;
  };
  EXPECT_EQ(run(), run());
}

TEST(TcpOptions, are_set_by_name_and_refuse_what_they_do_not_know) {
  TcpOptions options;
  std::string error;
  EXPECT_TRUE(options.set("control", "dctcp", error));
  EXPECT_EQ(options.control, TcpControl::kDctcp);
  EXPECT_TRUE(options.set("rto_min_us", "1000", error));
  EXPECT_EQ(options.rto_min, microseconds(1000));
  EXPECT_TRUE(options.set("dctcp_gain", "0.125", error));
  EXPECT_DOUBLE_EQ(options.dctcp_gain, 0.125);
  EXPECT_FALSE(options.set("rto_min_us", "0", error));
  EXPECT_EQ(error, "'0' is not a value of rto_min_us");
  EXPECT_FALSE(options.set("dctcp_gain", "nan", error));
  EXPECT_FALSE(options.set("sack", "yes", error));
  EXPECT_FALSE(options.set("cubic", "1", error));
  EXPECT_NE(error.find("unknown key 'cubic'; tcp has: control (reno, dctcp), sack"), std::string::npos);
  for (const char* key : {"sack", "rack", "tlp", "initial_window", "rto_max_us", "rto_initial_us",
                          "tlp_min_us", "delayed_ack_us", "ack_every", "quick_acks", "dupack_threshold"}) {
    EXPECT_TRUE(options.set(key, "1", error)) << error;
  }
  EXPECT_TRUE(options.set("receive_window", "65536", error));
}

}  // namespace
}  // namespace mroce::sim
