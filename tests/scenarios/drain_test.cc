// SQD: what has begun goes on, nothing new begins, and the application is told when nothing is left.
#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

void to_sqd(const Qp& qp) {
  QpAttr attr;
  attr.state = QpState::kSqd;
  ASSERT_TRUE(qp.modify(attr, qp_mask::kState | qp_mask::kEnSqdAsyncNotify));
}

void to_rts_again(const Qp& qp) {
  QpAttr attr;
  attr.state = QpState::kRts;
  ASSERT_TRUE(qp.modify(attr, qp_mask::kState));
}

bool is_draining(const Qp& qp) {
  return qp.endpoint->look().query_qp(qp.handle).value().sq_draining;
}

TEST(Drain, a_message_that_is_cut_in_part_is_finished_before_the_queue_counts_as_drained) {
  PairOptions options;
  options.tweak = [](EngineConfig& config) { config.window_bytes = 20000; };
  Pair pair(options);
  Pair::fill(pair.bytes_a(0, 500000), 1);
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 300000)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.qa.write(2, {pair.ma.sge(300000, 200000)}, pair.mb.addr + 300000, pair.mb.rkey));
  ASSERT_TRUE(pair.run_until([&] { return pair.b.memory().placed_bytes > 100000; }));
  to_sqd(pair.qa);
  EXPECT_TRUE(is_draining(pair.qa));
  bool told_early = false;
  ASSERT_TRUE(pair.run_until([&] {
    const bool told = pair.a.take_event(EventKind::kSqDrained);
    told_early = told_early || (told && pair.b.memory().placed_bytes < 300000);
    return told;
  }));
  EXPECT_FALSE(told_early);
  EXPECT_FALSE(is_draining(pair.qa));
  EXPECT_TRUE(completes(pair, pair.qa, 1));
  EXPECT_TRUE(is_quiet(pair, pair.a, pair.qa.send_cq, millis(200)));
  EXPECT_EQ(pair.b.memory().placed_bytes, 300000u);
  to_rts_again(pair.qa);
  EXPECT_TRUE(completes(pair, pair.qa, 2));
  EXPECT_TRUE(same(pair, 0, 0, 500000));
}

TEST(Drain, a_queue_with_nothing_under_way_is_drained_at_once) {
  Pair pair;
  to_sqd(pair.qa);
  EXPECT_FALSE(is_draining(pair.qa));
  EXPECT_TRUE(pair.run_until([&] { return pair.a.take_event(EventKind::kSqDrained); }, millis(1)));
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(is_quiet(pair, pair.a, pair.qa.send_cq, millis(200)));
  to_rts_again(pair.qa);
  EXPECT_TRUE(completes(pair, pair.qa, 1));
}

}  // namespace
}  // namespace mroce::test
