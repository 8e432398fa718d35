#include "core/rdma/qp_state.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace mroce {
namespace {

using namespace qp_mask;

constexpr QpState kStates[] = {QpState::kReset, QpState::kInit, QpState::kRtr, QpState::kRts,
                               QpState::kSqd,   QpState::kSqe,  QpState::kErr};

constexpr uint32_t kToInit = kState | kPkeyIndex | kPort | kAccessFlags;
constexpr uint32_t kToRtr = kState | kAv | kPathMtu | kDestQpn | kRqPsn | kMaxDestRdAtomic | kMinRnrTimer;
constexpr uint32_t kToRts = kState | kTimeout | kRetryCnt | kRnrRetry | kSqPsn | kMaxRdAtomic;

QpAttr to(QpState state) {
  QpAttr attr;
  attr.state = state;
  return attr;
}

int number(QpState state) {
  return static_cast<int>(state);
}

Errc error_of(const Status& status) {
  EXPECT_FALSE(status.has_value());
  return status.has_value() ? Errc::kNetwork : status.error();
}

// All single bits that a mask can have.
std::vector<uint32_t> all_bits() {
  std::vector<uint32_t> bits;
  for (int i = 0; i < 32; ++i) bits.push_back(1u << i);
  return bits;
}

TEST(QpState, the_ordinary_way_up_is_allowed) {
  EXPECT_TRUE(check_modify(QpState::kReset, to(QpState::kInit), kToInit).has_value());
  EXPECT_TRUE(check_modify(QpState::kInit, to(QpState::kRtr), kToRtr).has_value());
  EXPECT_TRUE(check_modify(QpState::kRtr, to(QpState::kRts), kToRts).has_value());
}

TEST(QpState, only_the_changes_of_the_table_exist) {
  const std::set<std::pair<QpState, QpState>> allowed = {
      {QpState::kReset, QpState::kInit}, {QpState::kInit, QpState::kInit}, {QpState::kInit, QpState::kRtr},
      {QpState::kRtr, QpState::kRts},    {QpState::kRts, QpState::kRts},   {QpState::kRts, QpState::kSqd},
      {QpState::kSqd, QpState::kSqd},    {QpState::kSqd, QpState::kRts}};
  for (const QpState from : kStates) {
    for (const QpState target : kStates) {
      const bool exists =
          target == QpState::kReset || target == QpState::kErr || allowed.contains({from, target});
      EXPECT_EQ(transition(from, target).has_value(), exists) << number(from) << " to " << number(target);
      if (exists) continue;
      EXPECT_EQ(error_of(check_modify(from, to(target), kState)), Errc::kBadState);
    }
  }
}

TEST(QpState, a_state_that_is_none_is_refused) {
  EXPECT_EQ(error_of(check_modify(QpState::kReset, to(static_cast<QpState>(7)), kState)), Errc::kBadState);
  EXPECT_EQ(error_of(check_modify(static_cast<QpState>(9), to(QpState::kErr), kState)), Errc::kBadState);
}

void expect_each_required(QpState from, QpState target, uint32_t mask) {
  for (const uint32_t bit : all_bits()) {
    if ((mask & bit) == 0 || bit == kState) continue;
    EXPECT_EQ(error_of(check_modify(from, to(target), mask & ~bit)), Errc::kInvalidArgument)
        << "without " << bit;
  }
}

TEST(QpState, each_required_attribute_must_be_given) {
  expect_each_required(QpState::kReset, QpState::kInit, kToInit);
  expect_each_required(QpState::kInit, QpState::kRtr, kToRtr);
  expect_each_required(QpState::kRtr, QpState::kRts, kToRts);
}

// Of the bits that `mask` lacks, exactly those of `optional` may be added.
void expect_optional(QpState from, QpState target, uint32_t mask, uint32_t optional) {
  QpAttr attr = to(target);
  attr.cur_state = from;
  for (const uint32_t bit : all_bits()) {
    if ((mask & bit) != 0) continue;
    EXPECT_EQ(check_modify(from, attr, mask | bit).has_value(), (optional & bit) != 0)
        << number(from) << " to " << number(target) << " with bit " << bit;
  }
}

TEST(QpState, only_optional_attributes_may_be_added) {
  const uint32_t running = kCurState | kAltPath | kAccessFlags | kMinRnrTimer | kPathMigState;
  const uint32_t drained = kPort | kAv | kTimeout | kRetryCnt | kRnrRetry | kMaxRdAtomic | kMaxDestRdAtomic |
                           kAltPath | kAccessFlags | kPkeyIndex | kMinRnrTimer | kPathMigState;
  expect_optional(QpState::kReset, QpState::kInit, kToInit, 0);
  expect_optional(QpState::kInit, QpState::kInit, kState, kPkeyIndex | kPort | kAccessFlags);
  expect_optional(QpState::kInit, QpState::kRtr, kToRtr, kAltPath | kAccessFlags | kPkeyIndex);
  expect_optional(QpState::kRtr, QpState::kRts, kToRts, running);
  expect_optional(QpState::kRts, QpState::kRts, kState, running);
  expect_optional(QpState::kRts, QpState::kSqd, kState, kEnSqdAsyncNotify);
  expect_optional(QpState::kSqd, QpState::kSqd, kState, drained);
  expect_optional(QpState::kSqd, QpState::kRts, kState, running);
  for (const QpState from : kStates) {
    expect_optional(from, QpState::kReset, kState, 0);
    expect_optional(from, QpState::kErr, kState, 0);
  }
}

TEST(QpState, without_a_state_in_the_mask_the_state_stays) {
  QpAttr attr = to(QpState::kErr);  // not looked at
  EXPECT_TRUE(check_modify(QpState::kRts, attr, kMinRnrTimer).has_value());
  EXPECT_TRUE(check_modify(QpState::kInit, attr, kAccessFlags).has_value());
  EXPECT_TRUE(check_modify(QpState::kRts, attr, 0).has_value());
  EXPECT_EQ(error_of(check_modify(QpState::kRtr, attr, kMinRnrTimer)), Errc::kBadState);
}

TEST(QpState, a_given_current_state_must_be_the_current_one) {
  QpAttr attr = to(QpState::kRts);
  attr.cur_state = QpState::kRtr;
  EXPECT_TRUE(check_modify(QpState::kRtr, attr, kToRts | kCurState).has_value());
  attr.cur_state = QpState::kSqd;
  EXPECT_EQ(error_of(check_modify(QpState::kRtr, attr, kToRts | kCurState)), Errc::kBadState);
}

// `field` may be up to `limit` when its bit is in the mask, and is not looked at when it is not.
template <class Value>
void expect_limit(QpState from, QpState target, uint32_t mask, Value QpAttr::*field, Value limit) {
  QpAttr attr = to(target);
  attr.*field = limit;
  EXPECT_TRUE(check_modify(from, attr, mask, 16).has_value()) << "at " << uint64_t{limit};
  attr.*field = static_cast<Value>(limit + 1);
  EXPECT_EQ(error_of(check_modify(from, attr, mask, 16)), Errc::kInvalidArgument)
      << "above " << uint64_t{limit};
  attr.state = QpState::kErr;
  EXPECT_TRUE(check_modify(from, attr, kState, 16).has_value()) << "not in the mask";
}

TEST(QpState, values_out_of_range_are_refused) {
  expect_limit<uint8_t>(QpState::kRtr, QpState::kRts, kToRts, &QpAttr::timeout, 31);
  expect_limit<uint8_t>(QpState::kRtr, QpState::kRts, kToRts, &QpAttr::retry_cnt, 7);
  expect_limit<uint8_t>(QpState::kRtr, QpState::kRts, kToRts, &QpAttr::rnr_retry, 7);
  expect_limit<uint32_t>(QpState::kRtr, QpState::kRts, kToRts, &QpAttr::sq_psn, 0xffffff);
  expect_limit<uint8_t>(QpState::kRtr, QpState::kRts, kToRts, &QpAttr::max_rd_atomic, 16);
  expect_limit<uint8_t>(QpState::kInit, QpState::kRtr, kToRtr, &QpAttr::min_rnr_timer, 31);
  expect_limit<uint32_t>(QpState::kInit, QpState::kRtr, kToRtr, &QpAttr::rq_psn, 0xffffff);
  expect_limit<uint32_t>(QpState::kInit, QpState::kRtr, kToRtr, &QpAttr::dest_qpn, 0xffffff);
  expect_limit<uint8_t>(QpState::kInit, QpState::kRtr, kToRtr, &QpAttr::max_dest_rd_atomic, 16);
}

}  // namespace
}  // namespace mroce
