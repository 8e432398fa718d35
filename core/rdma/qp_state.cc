#include "core/rdma/qp_state.h"

#include <array>

namespace mroce {
namespace {

using namespace qp_mask;

struct Row {
  QpState from;
  QpState to;
  QpTransition attributes;
};

constexpr uint32_t kRunningChanges = kCurState | kAltPath | kAccessFlags | kMinRnrTimer | kPathMigState;

constexpr auto kTable = std::to_array<Row>({
    {QpState::kReset, QpState::kInit, {kPkeyIndex | kPort | kAccessFlags, 0}},
    {QpState::kInit, QpState::kInit, {0, kPkeyIndex | kPort | kAccessFlags}},
    {QpState::kInit,
     QpState::kRtr,
     {kAv | kPathMtu | kDestQpn | kRqPsn | kMaxDestRdAtomic | kMinRnrTimer,
      kAltPath | kAccessFlags | kPkeyIndex}},
    {QpState::kRtr,
     QpState::kRts,
     {kTimeout | kRetryCnt | kRnrRetry | kSqPsn | kMaxRdAtomic, kRunningChanges}},
    {QpState::kRts, QpState::kRts, {0, kRunningChanges}},
    {QpState::kRts, QpState::kSqd, {0, kEnSqdAsyncNotify}},
    {QpState::kSqd, QpState::kRts, {0, kRunningChanges}},
    {QpState::kSqd,
     QpState::kSqd,
     {0, kPort | kAv | kTimeout | kRetryCnt | kRnrRetry | kMaxRdAtomic | kMaxDestRdAtomic | kAltPath |
             kAccessFlags | kPkeyIndex | kMinRnrTimer | kPathMigState}},
});

constexpr bool is_number24(uint32_t value) {
  return (value >> 24) == 0;
}

bool in_range(const QpAttr& attr, uint32_t mask, uint8_t max_rd_atomic) {
  const auto given = [mask](uint32_t bit) { return (mask & bit) != 0; };
  return (!given(kTimeout) || attr.timeout <= 31) && (!given(kRetryCnt) || attr.retry_cnt <= 7) &&
         (!given(kRnrRetry) || attr.rnr_retry <= 7) && (!given(kMinRnrTimer) || attr.min_rnr_timer <= 31) &&
         (!given(kRqPsn) || is_number24(attr.rq_psn)) && (!given(kSqPsn) || is_number24(attr.sq_psn)) &&
         (!given(kDestQpn) || is_number24(attr.dest_qpn)) &&
         (!given(kMaxRdAtomic) || attr.max_rd_atomic <= max_rd_atomic) &&
         (!given(kMaxDestRdAtomic) || attr.max_dest_rd_atomic <= max_rd_atomic);
}

}  // namespace

std::optional<QpTransition> transition(QpState from, QpState to) {
  if (from > QpState::kErr) return std::nullopt;
  if (to == QpState::kReset || to == QpState::kErr) return QpTransition{};
  for (const Row& row : kTable) {
    if (row.from == from && row.to == to) return row.attributes;
  }
  return std::nullopt;
}

Status check_modify(QpState current, const QpAttr& attr, uint32_t mask, uint8_t max_rd_atomic) {
  if ((mask & kCurState) != 0 && attr.cur_state != current) return fail(Errc::kBadState);
  const auto change = transition(current, (mask & kState) != 0 ? attr.state : current);
  if (!change) return fail(Errc::kBadState);
  if ((mask & change->required) != change->required) return fail(Errc::kInvalidArgument);
  if ((mask & ~(change->required | change->optional | kState)) != 0) return fail(Errc::kInvalidArgument);
  if (!in_range(attr, mask, max_rd_atomic)) return fail(Errc::kInvalidArgument);
  return {};
}

}  // namespace mroce
