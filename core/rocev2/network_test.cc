// What queue pairs do to each other and to themselves in a network: fairness, the price of loss.
#include <gtest/gtest.h>

#include <cmath>

#include "core/rocev2/test_net.h"

namespace mroce::rocev2 {
namespace {

QpParams virtual_qp() {
  QpParams params;
  params.virtual_payload = true;
  return params;
}

// `senders` hosts send to host 0 for ever; bits per second of each in the second half of `time`.
std::vector<double> incast(uint32_t senders, Nanos time, EngineConfig config, uint64_t& max_queue) {
  NetOptions options;
  options.kmin = 100e3;
  options.kmax = 400e3;
  options.pmax = 0.2;
  TestNet net(senders + 1, config, options);
  std::vector<uint32_t> qpns;
  for (uint32_t i = 1; i <= senders; ++i) {
    const auto [a, b] = net.connect(i, 0, virtual_qp(), virtual_qp());
    qpns.push_back(b);
    EXPECT_TRUE(
        net.engine(i).post_virtual(net.now(), a, {1, Opcode::kWrite, send_flag::kSignaled, 1u << 30}));
  }
  net.run_for(time / 2);
  std::vector<double> rates;
  for (const uint32_t qpn : qpns) rates.push_back(-static_cast<double>(net.engine(0).executed_psns(qpn)));
  net.run_for(time / 2);
  for (size_t i = 0; i < qpns.size(); ++i) {
    rates[i] += static_cast<double>(net.engine(0).executed_psns(qpns[i]));
    rates[i] *= config.mtu * 8e9 / static_cast<double>((time / 2).count());
  }
  max_queue = net.max_queue(0);
  return rates;
}

double jain(const std::vector<double>& x) {
  double sum = 0, squares = 0;
  for (const double v : x) {
    sum += v;
    squares += v * v;
  }
  return sum * sum / (static_cast<double>(x.size()) * squares);
}

class Incast : public testing::TestWithParam<std::tuple<uint32_t, DcqcnConfig::Flavour>> {};

TEST_P(Incast, flows_through_a_marked_bottleneck_share_it_and_use_it) {
  const auto [senders, flavour] = GetParam();
  EngineConfig config;
  config.ack_interval = 4;
  config.dcqcn.flavour = flavour;
  config.dcqcn.scale_with_line = true;
  config.dcqcn.min_rate_bps = 100e6;
  if (flavour == DcqcnConfig::Flavour::kMlx) {
    config.dcqcn.initial_alpha = 1023.0 / 1024;
    config.dcqcn.min_dec_fac = 0.5;
    config.dcqcn.byte_reset = 32767;
  }
  uint64_t max_queue = 0;
  const auto rates = incast(senders, millis(40), config, max_queue);
  double sum = 0;
  for (const double rate : rates) sum += rate;
  RecordProperty("jain", std::to_string(jain(rates)));
  RecordProperty("gbps", std::to_string(sum / 1e9));
  EXPECT_GT(jain(rates), 0.9);
  EXPECT_GT(sum, 0.85 * 100e9 * 4096 / (4096 + 82));
  EXPECT_LE(sum, 100e9);
  EXPECT_GT(max_queue, 100'000u);
}
INSTANTIATE_TEST_SUITE_P(Flavours, Incast,
                         testing::Combine(testing::Values(2u, 16u),
                                          testing::Values(DcqcnConfig::Flavour::kHpccSim,
                                                          DcqcnConfig::Flavour::kMlx)));

struct Transfer {
  double goodput = 0;  // share of a loss-free run
  uint64_t lost = 0;
  Counters sender;
};

// 40 MB over one connection; only packets of the sender are lost.
Transfer transfer(double loss, EngineConfig config) {
  NetOptions options;
  TestNet net(2, config, options);
  const auto [a, b] = net.connect(0, 1, virtual_qp(), virtual_qp());
  Rng rng(11);
  Transfer t;
  net.filter = [&](const NetPacket& p) {
    const bool lost = p.from == 0 && rng.chance(loss);
    t.lost += lost;
    return lost;
  };
  constexpr uint32_t kBytes = 40'000'000;
  EXPECT_TRUE(net.engine(0).post_virtual(net.now(), a, {1, Opcode::kWrite, send_flag::kSignaled, kBytes}));
  Wc wc;
  EXPECT_TRUE(net.run([&] { return net.engine(0).poll_completion(wc); }, seconds(5)));
  EXPECT_EQ(wc.status, WcStatus::kSuccess);
  const double packets = std::ceil(kBytes / static_cast<double>(config.mtu));
  const double ideal_ns = packets * (config.mtu + 82) * 8 / 100;
  t.goodput = ideal_ns / static_cast<double>(ns_of(net.now()));
  t.sender = net.engine(0).counters();
  static_cast<void>(b);
  return t;
}

EngineConfig lossy(Recovery recovery) {
  EngineConfig config;
  config.mtu = 1024;
  config.dcqcn.enabled = false;
  config.loss.recovery = recovery;
  config.loss.timeout = micros(200);
  return config;
}

// A loss costs what is on its way until the NAK comes back (D packets), and a loss of the packet that is sent
// again costs a timeout besides (T packets): 1 / (1 + p D + p^2 T).
TEST(RoceLoss, go_back_n_loses_what_theory_says) {
  const double packet_ns = (1024 + 82) * 8 / 100.0;
  const double round_trip_ns = 4000 + 2 * packet_ns + 10;
  const double d = round_trip_ns / packet_ns;
  const double t = 200'000 / packet_ns;
  double last = 1.01;
  for (const double p : {0.0, 3e-4, 1e-3, 3e-3, 1e-2}) {
    const Transfer got = transfer(p, lossy(Recovery::kGoBackN));
    const double theory = 1 / (1 + p * d + p * p * t);
    EXPECT_NEAR(got.goodput, theory, 0.08 * theory) << "loss " << p;
    EXPECT_LT(got.goodput, last) << "loss " << p;
    last = got.goodput;
  }
}

TEST(RoceLoss, selective_repeat_sends_again_exactly_what_was_lost) {
  for (const double p : {0.0, 1e-3, 1e-2}) {
    EngineConfig config = lossy(Recovery::kSelectiveRepeat);
    config.ack_interval = 1;
    config.loss.rto_low = micros(100);
    config.window.bytes = 100'000;
    const Transfer got = transfer(p, config);
    EXPECT_EQ(got.sender.retransmitted, got.lost) << "loss " << p;
    EXPECT_EQ(got.lost == 0, p == 0);
    if (p < 5e-3) {
      EXPECT_GT(got.goodput, 0.8) << "loss " << p;
    }
  }
}

TEST(RoceLoss, selective_repeat_wastes_less_than_go_back_n) {
  EngineConfig irn = lossy(Recovery::kSelectiveRepeat);
  irn.ack_interval = 1;
  irn.window.bytes = 100'000;
  const Transfer a = transfer(1e-2, irn);
  const Transfer b = transfer(1e-2, lossy(Recovery::kGoBackN));
  EXPECT_LT(a.sender.tx_data * 13, b.sender.tx_data * 10);
}

TEST(RoceLoss, a_window_bounds_what_is_outstanding) {
  EngineConfig config = lossy(Recovery::kGoBackN);
  config.window.bytes = 20 * 1024;
  TestNet net(2, config, {});
  const auto [a, b] = net.connect(0, 1, virtual_qp(), virtual_qp());
  ASSERT_TRUE(
      net.engine(0).post_virtual(net.now(), a, {1, Opcode::kWrite, send_flag::kSignaled, 10'000'000}));
  uint64_t most = 0;
  Wc wc;
  const uint32_t qpn = a;
  ASSERT_TRUE(net.run([&] {
    const auto stats = net.engine(0).qp_stats(net.now(), qpn);
    most = std::max(most, stats->outstanding);
    return net.engine(0).poll_completion(wc);
  }));
  EXPECT_EQ(most, 20u);
  EXPECT_EQ(net.engine(0).counters().timeouts, 0u);
  static_cast<void>(b);
}

}  // namespace
}  // namespace mroce::rocev2
