// All cases, by the file that they are in.
#pragma once

#include "verbs/check/check.h"

namespace mroce::check {

// operations.cc: each operation with all sizes, split into 1 to 4 SGEs, inline where it fits.
void case_send(Side& side);
void case_send_imm(Side& side);
void case_send_inv(Side& side);
void case_write(Side& side);
void case_write_imm(Side& side);
void case_read(Side& side);
void case_compare_swap(Side& side);
void case_fetch_add(Side& side);
// order.cc: what programs rely on beyond completions.
void case_last_byte_polling(Side& side);
void case_data_then_flag(Side& side);
void case_send_after_write(Side& side);
void case_fenced_send_after_read(Side& side);
// mixed.cc
void case_mixed(Side& side);
void case_atomics_exactly_once(Side& side);
// receive_queues.cc
void case_srq(Side& side);
void case_srq_limit(Side& side);
void case_receiver_not_ready(Side& side);
void case_receiver_never_ready(Side& side);
// queue_pairs.cc
void case_many_qps(Side& side);
void case_recreate(Side& side);
void case_flush(Side& side);
void case_attributes(Side& side);
// events.cc
void case_solicited_events(Side& side);
void case_channel_of_many(Side& side);
// errors.cc
void case_access_errors(Side& side);
void case_local_errors(Side& side);
void case_short_receive(Side& side);
// process.cc
void case_peer_killed(Side& side);
void case_peer_exits(Side& side);
void case_fork(Side& side);

}  // namespace mroce::check
