// The reaction point against sequences worked out by hand.
#include "core/rocev2/dcqcn.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mroce::rocev2 {
namespace {

constexpr double kLine = 100e9;

Time us(int64_t t) {
  return time_from_ns(t * 1000);
}
DcqcnConfig hpcc() {
  return {};
}
DcqcnConfig mlx() {
  DcqcnConfig c;
  c.flavour = DcqcnConfig::Flavour::kMlx;
  c.initial_alpha = 1023.0 / 1024;
  c.min_dec_fac = 0.5;
  c.byte_reset = 32767;
  return c;
}

TEST(Dcqcn, nothing_happens_without_a_cnp) {
  const DcqcnConfig config = hpcc();
  Dcqcn d(config, kLine, us(0));
  EXPECT_EQ(d.deadline(), kNever);
  EXPECT_EQ(d.rate_bps(), kLine);
  EXPECT_FALSE(d.throttled());
}

TEST(Dcqcn, hpcc_cuts_at_the_end_of_the_period_and_recovers_in_three_phases) {
  const DcqcnConfig config = hpcc();
  Dcqcn d(config, kLine, us(0));
  d.on_cnp(us(10));
  EXPECT_EQ(d.rate_bps(), kLine);  // the first CNP only starts the clocks
  ASSERT_EQ(d.deadline(), us(14));
  d.on_timer(us(14));
  const double alpha = std::pow(255.0 / 256, 4);  // four updates without a CNP
  EXPECT_DOUBLE_EQ(d.alpha(us(14)), alpha);
  double rate = kLine * (1 - alpha / 2);
  EXPECT_DOUBLE_EQ(d.rate_bps(), rate);
  EXPECT_EQ(d.target_bps(), kLine);  // no increase since the last cut: the target stays

  ASSERT_EQ(d.deadline(), us(314));
  d.on_timer(us(314));  // fast recovery
  rate = (rate + kLine) / 2;
  EXPECT_DOUBLE_EQ(d.rate_bps(), rate);

  d.on_cnp(us(315));  // periods are counted from the first CNP: 10, 14, …, 318
  ASSERT_EQ(d.deadline(), us(318));
  d.on_timer(us(318));
  double target = rate;                                      // the clock had raised the rate
  const double alpha2 = alpha * std::pow(255.0 / 256, 301);  // updates at 15 … 315, all before the CNP counts
  const double alpha3 =
      (alpha2 * 255 / 256 + 1.0 / 256) * std::pow(255.0 / 256, 2);  // 316 sees it, then 317, 318
  EXPECT_NEAR(d.alpha(us(318)), alpha3, 1e-12);
  rate = rate * (1 - alpha3 / 2);
  EXPECT_NEAR(d.rate_bps(), rate, 1);
  EXPECT_NEAR(d.target_bps(), target, 1);

  d.on_timer(us(618));  // stage 0: fast recovery
  rate = (rate + target) / 2;
  EXPECT_NEAR(d.rate_bps(), rate, 1);
  d.on_timer(us(918));  // stage 1: additive
  target += 5e6;
  rate = (rate + target) / 2;
  EXPECT_NEAR(d.rate_bps(), rate, 1);
  d.on_timer(us(1218));  // stage 2: hyper
  target += 50e6;
  rate = (rate + target) / 2;
  EXPECT_NEAR(d.rate_bps(), rate, 1);
  EXPECT_NEAR(d.target_bps(), target, 1);
}

TEST(Dcqcn, many_cnps_of_one_period_cut_once) {
  const DcqcnConfig config = hpcc();
  Dcqcn a(config, kLine, us(0)), b(config, kLine, us(0));
  a.on_cnp(us(0));
  for (int i = 0; i < 4; ++i) b.on_cnp(time_from_ns(i * 200));
  a.on_timer(us(4));
  b.on_timer(us(4));
  EXPECT_GT(a.rate_bps(), b.rate_bps());  // by alpha: the later CNPs of b counted for it, the first does not
  EXPECT_NEAR(a.rate_bps() / b.rate_bps(), 1, 0.01);
  EXPECT_EQ(b.deadline(), us(304));
}

TEST(Dcqcn, no_cut_goes_below_the_minimum_and_the_clamp_always_lowers_the_target) {
  DcqcnConfig config = hpcc();
  config.clamp_target = true;
  config.min_rate_bps = 1e9;
  Dcqcn d(config, kLine, us(0));
  for (int i = 0; i < 100; ++i) {
    d.on_cnp(us(4 * i));
    if (d.deadline() <= us(4 * i + 4)) d.on_timer(us(4 * i + 4));
  }
  EXPECT_EQ(d.rate_bps(), 1e9);
  EXPECT_LT(d.target_bps(), 3e9);
}

TEST(Dcqcn, scaled_increases_grow_with_the_line) {
  DcqcnConfig config = hpcc();
  config.scale_with_line = true;
  config.clamp_target = true;
  Dcqcn d(config, 400e9, us(0));
  d.on_cnp(us(0));
  d.on_timer(us(4));
  const double target = d.target_bps();
  d.on_timer(us(304));
  d.on_timer(us(604));
  EXPECT_DOUBLE_EQ(std::min(400e9, target + 16 * 5e6), d.target_bps());
}

TEST(Dcqcn, an_initial_rate_climbs_to_the_line_without_any_cnp) {
  DcqcnConfig config = hpcc();
  config.initial_rate_bps = 10e9;
  Dcqcn d(config, kLine, us(0));
  EXPECT_EQ(d.rate_bps(), 10e9);
  int steps = 0;
  while (d.deadline() != kNever) {
    d.on_timer(d.deadline());
    ASSERT_LT(++steps, 100);
  }
  EXPECT_EQ(d.rate_bps(), kLine);
}

TEST(Dcqcn, firmware_cuts_at_once_with_alpha_in_parts_of_1024) {
  const DcqcnConfig config = mlx();
  Dcqcn d(config, kLine, us(0));
  d.on_cnp(us(100));
  EXPECT_DOUBLE_EQ(d.rate_bps(), kLine * (1 - 1023.0 / 2048));
  // 101: 1023 * 1019 / 1024 = 1018, + 5. 102: 1018. 103: 1018 * 1019 / 1024 = 1013.
  EXPECT_EQ(d.alpha(us(101)), 1023.0 / 1024);
  EXPECT_EQ(d.alpha(us(102)), 1018.0 / 1024);
  EXPECT_EQ(d.alpha(us(103)), 1013.0 / 1024);
  d.on_cnp(us(103));  // within 4 us of the cut: waits
  EXPECT_DOUBLE_EQ(d.rate_bps(), kLine * (1 - 1023.0 / 2048));
  ASSERT_EQ(d.deadline(), us(104));
  d.on_timer(us(104));
  // 104: 1013 * 1019 / 1024 = 1008, + 5 = 1013.
  EXPECT_DOUBLE_EQ(d.rate_bps(), kLine * (1 - 1023.0 / 2048) * (1 - 1013.0 / 2048));
  // Without CNPs alpha ends at nothing.
  EXPECT_EQ(d.alpha(us(5000)), 0);
}

TEST(Dcqcn, firmware_raises_by_its_byte_counter_too) {
  const DcqcnConfig config = mlx();
  Dcqcn d(config, kLine, us(0));
  d.on_cnp(us(0));
  const double cut = d.rate_bps();
  d.on_sent(32766);
  EXPECT_EQ(d.rate_bps(), cut);
  d.on_sent(1);
  EXPECT_DOUBLE_EQ(d.rate_bps(), (cut + kLine) / 2);
  EXPECT_EQ(d.time_stage(), 0u);
}

TEST(Dcqcn, min_dec_fac_limits_one_cut) {
  DcqcnConfig config = mlx();
  config.min_dec_fac = 0.8;
  Dcqcn d(config, kLine, us(0));
  d.on_cnp(us(0));
  EXPECT_DOUBLE_EQ(d.rate_bps(), kLine * 0.8);
}

TEST(Dcqcn, switched_off_it_ignores_cnps) {
  DcqcnConfig config = hpcc();
  config.enabled = false;
  Dcqcn d(config, kLine, us(0));
  d.on_cnp(us(0));
  EXPECT_EQ(d.deadline(), kNever);
  EXPECT_EQ(d.rate_bps(), kLine);
}

}  // namespace
}  // namespace mroce::rocev2
