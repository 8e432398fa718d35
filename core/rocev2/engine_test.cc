// What a pair of engines does, one behaviour each.
#include "core/rocev2/engine.h"

#include <gtest/gtest.h>

#include <numeric>

#include "core/rocev2/test_net.h"

namespace mroce::rocev2 {
namespace {

EngineConfig plain() {
  EngineConfig config;
  config.mtu = 1024;
  config.dcqcn.enabled = false;
  config.loss.timeout = micros(200);
  return config;
}

// Two hosts with one connection and one registered buffer of 64 KiB each.
struct Pair {
  explicit Pair(EngineConfig config = plain(), NetOptions options = {}, QpParams a = {}, QpParams b = {})
      : net(2, config, options), left(65536), right(65536) {
    std::tie(qa, qb) = net.connect(0, 1, a, b);
    lkey = *net.engine(0).reg_mr(PdHandle{1}, addr(left), left.size(), addr(left), access::kAll);
    rkey = *net.engine(1).reg_mr(PdHandle{1}, addr(right), right.size(), addr(right), access::kAll);
    std::iota(left.begin(), left.end(), uint8_t{3});
  }
  static uint64_t addr(const std::vector<uint8_t>& v) { return reinterpret_cast<uint64_t>(v.data()); }

  Status post(Opcode op, uint32_t offset, uint32_t length, uint64_t id = 0,
              uint32_t flags = send_flag::kSignaled) {
    const Sge sge{addr(left) + offset, length, lkey};
    SendWr wr;
    wr.wr_id = id;
    wr.opcode = op;
    wr.flags = flags;
    wr.sges = {&sge, 1};
    wr.remote_addr = addr(right) + offset;
    wr.rkey = rkey;
    wr.imm_or_invalidate = 0x01020304;
    wr.compare_or_add = 5;
    wr.swap = 77;
    return net.engine(0).post_send(net.now(), qa, wr);
  }
  Status receive(uint32_t offset, uint32_t length, uint64_t id = 0) {
    const Sge sge{addr(right) + offset, length, rkey};
    return net.engine(1).post_recv(net.now(), qb, {id, {&sge, 1}});
  }
  // The next completion of a side; fails the test if none comes.
  Wc completion(uint32_t host, Nanos limit = seconds(1)) {
    Wc wc;
    const bool got = net.run([&] { return net.engine(host).poll_completion(wc); }, limit);
    EXPECT_TRUE(got) << "no completion on host " << host;
    return wc;
  }
  const Counters& counters(uint32_t host) { return net.engine(host).counters(); }

  TestNet net;
  std::vector<uint8_t> left, right;
  uint32_t qa = 0, qb = 0, lkey = 0, rkey = 0;
};

TEST(RoceEngine, a_write_is_cut_at_the_mtu_and_placed) {
  Pair pair;
  ASSERT_TRUE(pair.post(Opcode::kWrite, 100, 5001, 42));
  const Wc wc = pair.completion(0);
  EXPECT_EQ(wc.wr_id, 42u);
  EXPECT_EQ(wc.status, WcStatus::kSuccess);
  EXPECT_TRUE(std::equal(pair.left.begin() + 100, pair.left.begin() + 5101, pair.right.begin() + 100));
  EXPECT_EQ(pair.right[99], 0);
  EXPECT_EQ(pair.right[5101], 0);
  EXPECT_EQ(pair.counters(0).tx_data, 5u);
  EXPECT_EQ(pair.counters(1).rx_payload_bytes, 5001u);
}

TEST(RoceEngine, an_empty_write_is_one_packet) {
  Pair pair;
  ASSERT_TRUE(pair.post(Opcode::kWrite, 0, 0));
  EXPECT_EQ(pair.completion(0).status, WcStatus::kSuccess);
  EXPECT_EQ(pair.counters(0).tx_packets, 1u);
}

TEST(RoceEngine, sends_fill_receives_in_order_with_their_immediate) {
  Pair pair;
  ASSERT_TRUE(pair.receive(0, 4096, 1));
  ASSERT_TRUE(pair.receive(8192, 4096, 2));
  ASSERT_TRUE(pair.post(Opcode::kSend, 0, 3000));
  ASSERT_TRUE(pair.post(Opcode::kSendImm, 4096, 10));
  Wc wc = pair.completion(1);
  EXPECT_EQ(wc.wr_id, 1u);
  EXPECT_EQ(wc.byte_len, 3000u);
  EXPECT_EQ(wc.flags, 0u);
  wc = pair.completion(1);
  EXPECT_EQ(wc.wr_id, 2u);
  EXPECT_EQ(wc.byte_len, 10u);
  EXPECT_EQ(wc.flags, wc_flag::kWithImm);
  EXPECT_EQ(wc.imm_or_invalidated, 0x01020304u);
  EXPECT_TRUE(std::equal(pair.left.begin(), pair.left.begin() + 3000, pair.right.begin()));
  EXPECT_TRUE(std::equal(pair.left.begin() + 4096, pair.left.begin() + 4106, pair.right.begin() + 8192));
}

TEST(RoceEngine, a_read_takes_one_psn_for_each_response) {
  Pair pair;
  std::iota(pair.right.begin(), pair.right.end(), uint8_t{9});
  std::vector<uint32_t> psns;
  pair.net.filter = [&](const NetPacket& p) {
    if (p.from == 0) psns.push_back(p.headers().bth.psn);
    return false;
  };
  ASSERT_TRUE(pair.post(Opcode::kRead, 0, 5000, 1));
  ASSERT_TRUE(pair.post(Opcode::kWrite, 8192, 8, 2));
  EXPECT_EQ(pair.completion(0).wr_id, 1u);
  EXPECT_EQ(pair.completion(0).wr_id, 2u);
  ASSERT_EQ(psns.size(), 2u);
  EXPECT_EQ((psns[1] - psns[0]) & 0xffffffu, 5u);
  EXPECT_TRUE(std::equal(pair.left.begin(), pair.left.begin() + 5000, pair.right.begin()));
}

TEST(RoceEngine, a_lost_read_response_is_asked_for_again_from_where_it_is_missing) {
  Pair pair;
  std::iota(pair.right.begin(), pair.right.end(), uint8_t{9});
  int responses = 0;
  std::vector<uint32_t> lengths;
  pair.net.filter = [&](const NetPacket& p) {
    const Headers h = p.headers();
    if (h.bth.op == Op::kReadRequest) lengths.push_back(h.reth.length);
    return p.from == 1 && responses++ == 2;
  };
  ASSERT_TRUE(pair.post(Opcode::kRead, 0, 8000));
  EXPECT_EQ(pair.completion(0).status, WcStatus::kSuccess);
  EXPECT_EQ(lengths, (std::vector<uint32_t>{8000, 8000 - 2 * 1024}));
  EXPECT_EQ(pair.counters(0).implied_naks, 1u);
  EXPECT_EQ(pair.counters(0).timeouts, 0u);
  EXPECT_TRUE(std::equal(pair.left.begin(), pair.left.begin() + 8000, pair.right.begin()));
}

TEST(RoceEngine, a_duplicate_atomic_is_answered_from_the_cache) {
  Pair pair;
  int acks = 0;
  pair.net.filter = [&](const NetPacket& p) { return p.from == 1 && acks++ == 0; };
  uint64_t word = 100;
  std::memcpy(pair.right.data() + 64, &word, 8);
  ASSERT_TRUE(pair.post(Opcode::kFetchAdd, 64, 8));
  EXPECT_EQ(pair.completion(0).status, WcStatus::kSuccess);
  std::memcpy(&word, pair.right.data() + 64, 8);
  EXPECT_EQ(word, 105u);
  std::memcpy(&word, pair.left.data() + 64, 8);
  EXPECT_EQ(word, 100u);
  EXPECT_EQ(pair.net.memory(1).atomics, 1u);
  EXPECT_EQ(pair.counters(0).timeouts, 1u);
}

TEST(RoceEngine, compare_and_swap_swaps_only_what_is_equal) {
  Pair pair;
  uint64_t word = 5;
  std::memcpy(pair.right.data(), &word, 8);
  ASSERT_TRUE(pair.post(Opcode::kCompareSwap, 0, 8));
  ASSERT_TRUE(pair.post(Opcode::kCompareSwap, 0, 8));
  pair.completion(0);
  std::memcpy(&word, pair.left.data(), 8);
  EXPECT_EQ(word, 5u);
  pair.completion(0);
  std::memcpy(&word, pair.left.data(), 8);
  EXPECT_EQ(word, 77u);
  EXPECT_EQ(pair.net.memory(1).atomics, 2u);
}

TEST(RoceEngine, one_nak_for_each_gap_and_everything_from_there_on_again) {
  Pair pair;
  int data = 0;
  pair.net.filter = [&](const NetPacket& p) { return p.from == 0 && data++ == 10; };
  ASSERT_TRUE(pair.post(Opcode::kWrite, 0, 40 * 1024));
  EXPECT_EQ(pair.completion(0).status, WcStatus::kSuccess);
  EXPECT_EQ(pair.counters(1).naks_sent, 1u);
  EXPECT_EQ(pair.counters(0).timeouts, 0u);
  EXPECT_GT(pair.counters(1).out_of_order, 1u);
  EXPECT_EQ(pair.counters(0).retransmitted, pair.counters(1).out_of_order + 1);
  EXPECT_EQ(pair.left[20000], pair.right[20000]);
}

TEST(RoceEngine, with_an_interval_a_nak_is_repeated_while_the_gap_stays) {
  EngineConfig config = plain();
  config.loss.nak_interval = micros(1);
  config.loss.timeout = millis(5);
  Pair pair(config);
  int first = 0;
  uint32_t lost = 0;
  pair.net.filter = [&](const NetPacket& p) {  // packet 10 is lost three times
    if (p.from != 0) return false;
    if (++first == 11) lost = p.headers().bth.psn;
    return first >= 11 && p.headers().bth.psn == lost && first < 60;
  };
  ASSERT_TRUE(pair.post(Opcode::kWrite, 0, 60 * 1024));
  EXPECT_EQ(pair.completion(0).status, WcStatus::kSuccess);
  EXPECT_GT(pair.counters(1).naks_sent, 1u);
}

TEST(RoceEngine, a_lost_tail_waits_for_the_timeout) {
  Pair pair;
  int data = 0;
  pair.net.filter = [&](const NetPacket& p) { return p.from == 0 && data++ == 3; };
  ASSERT_TRUE(pair.post(Opcode::kWrite, 0, 4096));
  const Wc wc = pair.completion(0);
  EXPECT_EQ(wc.status, WcStatus::kSuccess);
  EXPECT_EQ(pair.counters(0).timeouts, 1u);
  EXPECT_GE(pair.net.now(), time_from_ns(200'000));
  EXPECT_LT(pair.net.now(), time_from_ns(220'000));
}

// 30 packets are the tail: the first timeout brings all of them back, not one for each.
TEST(RoceEngine, a_lost_tail_costs_selective_repeat_one_timeout) {
  EngineConfig config = plain();
  config.loss.recovery = Recovery::kSelectiveRepeat;
  config.ack_interval = 1;
  Pair pair(config);
  int data = 0;
  pair.net.filter = [&](const NetPacket& p) { return p.from == 0 && ++data > 10 && data <= 40; };
  ASSERT_TRUE(pair.post(Opcode::kWrite, 0, 40 * 1024));
  EXPECT_EQ(pair.completion(0).status, WcStatus::kSuccess);
  EXPECT_EQ(pair.counters(0).timeouts, 1u);
  EXPECT_EQ(pair.counters(0).retransmitted, 30u);
}

TEST(RoceEngine, a_nack_may_resend_all_that_is_out) {
  for (const bool all : {false, true}) {
    EngineConfig config = plain();
    config.loss.recovery = Recovery::kSelectiveRepeat;
    config.loss.nak_resends_all = all;
    config.ack_interval = 1;
    Pair pair(config);
    int data = 0;
    pair.net.filter = [&](const NetPacket& p) { return p.from == 0 && data++ == 10; };
    ASSERT_TRUE(pair.post(Opcode::kWrite, 0, 40 * 1024));
    EXPECT_EQ(pair.completion(0).status, WcStatus::kSuccess);
    EXPECT_EQ(pair.counters(0).timeouts, 0u);
    EXPECT_EQ(pair.counters(0).retransmitted > 1, all);
  }
}

TEST(RoceEngine, retries_end_with_an_error_and_the_rest_is_flushed) {
  QpParams params;
  params.retry_cnt = 2;
  Pair pair(plain(), {}, params);
  pair.net.filter = [](const NetPacket&) { return true; };
  ASSERT_TRUE(pair.post(Opcode::kWrite, 0, 100, 1));
  ASSERT_TRUE(pair.post(Opcode::kWrite, 0, 100, 2, 0));
  Wc wc = pair.completion(0);
  EXPECT_EQ(wc.wr_id, 1u);
  EXPECT_EQ(wc.status, WcStatus::kRetryExcErr);
  wc = pair.completion(0);
  EXPECT_EQ(wc.wr_id, 2u);
  EXPECT_EQ(wc.status, WcStatus::kWrFlushErr);
  EXPECT_EQ(pair.counters(0).timeouts, 3u);
  Event event;
  ASSERT_TRUE(pair.net.engine(0).poll_event(event));
  EXPECT_EQ(event.kind, EventKind::kQpError);
  EXPECT_EQ(pair.post(Opcode::kWrite, 0, 1).error(), Errc::kBadState);
}

TEST(RoceEngine, adaptive_retransmission_comes_early_and_does_not_use_up_retries) {
  EngineConfig config = plain();
  config.loss.timeout = Nanos{0};
  config.loss.adaptive = true;
  QpParams params;
  params.retry_cnt = 0;
  params.timeout = 14;  // 67 ms
  Pair pair(config, {}, params);
  int sent = 0;
  pair.net.filter = [&](const NetPacket& p) { return p.from == 0 && sent++ < 4; };
  ASSERT_TRUE(pair.post(Opcode::kWrite, 0, 100));
  EXPECT_EQ(pair.completion(0).status, WcStatus::kSuccess);
  EXPECT_EQ(pair.counters(0).timeouts, 4u);
  // Steps of 16, 32, 64 and 128 us, each up to twice as long.
  EXPECT_GE(pair.net.now(), time_from_ns(240'000));
  EXPECT_LE(pair.net.now(), time_from_ns(490'000));
}

TEST(RoceEngine, a_receiver_that_is_not_ready_makes_the_sender_wait) {
  QpParams receiver;
  receiver.min_rnr_timer = 12;  // 0.64 ms
  Pair pair(plain(), {}, {}, receiver);
  ASSERT_TRUE(pair.post(Opcode::kSend, 0, 2000));
  pair.net.run_for(micros(100));
  EXPECT_EQ(pair.counters(1).rnr_naks_sent, 1u);
  ASSERT_TRUE(pair.receive(0, 4096));
  EXPECT_EQ(pair.completion(0).status, WcStatus::kSuccess);
  EXPECT_GE(pair.net.now(), time_from_ns(640'000));
  EXPECT_LT(pair.net.now(), time_from_ns(660'000));
  EXPECT_EQ(pair.counters(0).timeouts, 0u);
  EXPECT_EQ(pair.left[1999], pair.right[1999]);
}

TEST(RoceEngine, rnr_retries_are_counted) {
  QpParams sender;
  sender.rnr_retry = 2;
  QpParams receiver;
  receiver.min_rnr_timer = 1;
  Pair pair(plain(), {}, sender, receiver);
  ASSERT_TRUE(pair.post(Opcode::kSend, 0, 10));
  EXPECT_EQ(pair.completion(0).status, WcStatus::kRnrRetryExcErr);
  EXPECT_EQ(pair.counters(0).rnr_naks_received, 3u);
}

TEST(RoceEngine, credits_hold_back_sends_so_that_no_rnr_happens) {
  QpParams receiver;
  receiver.min_rnr_timer = 1;
  Pair pair(plain(), {}, {}, receiver);
  ASSERT_TRUE(pair.receive(0, 1024));
  ASSERT_TRUE(pair.receive(0, 1024));
  ASSERT_TRUE(pair.post(Opcode::kSend, 0, 100));
  pair.completion(0);  // brought the credits: one more
  const uint64_t before = pair.counters(0).tx_data;
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(pair.post(Opcode::kSend, 0, 100));
  pair.completion(0);
  pair.net.run_for(micros(5));
  // One went with the credit, and one more to ask; without credits all five would be out.
  EXPECT_EQ(pair.counters(0).tx_data - before, 2u);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(pair.receive(0, 1024));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(pair.completion(0).status, WcStatus::kSuccess);
  EXPECT_LE(pair.counters(1).rnr_naks_sent, 1u);
}

TEST(RoceEngine, a_wrong_key_is_an_access_error_and_touches_nothing) {
  Pair pair;
  pair.rkey ^= 1;
  ASSERT_TRUE(pair.post(Opcode::kWrite, 0, 3000));
  EXPECT_EQ(pair.completion(0).status, WcStatus::kRemAccessErr);
  EXPECT_EQ(pair.net.memory(1).placed_bytes, 0u);
  EXPECT_EQ(pair.counters(1).error_naks_sent, 1u);
}

TEST(RoceEngine, a_range_beyond_the_region_is_an_access_error) {
  Pair pair;
  const Sge sge{Pair::addr(pair.left), 64, pair.lkey};
  SendWr wr;
  wr.opcode = Opcode::kRead;
  wr.sges = {&sge, 1};
  wr.remote_addr = Pair::addr(pair.right) + 65536 - 63;
  wr.rkey = pair.rkey;
  ASSERT_TRUE(pair.net.engine(0).post_send(pair.net.now(), pair.qa, wr));
  EXPECT_EQ(pair.completion(0).status, WcStatus::kRemAccessErr);
}

TEST(RoceEngine, a_send_longer_than_its_receive_fails_on_both_sides) {
  Pair pair;
  ASSERT_TRUE(pair.receive(0, 100, 9));
  ASSERT_TRUE(pair.post(Opcode::kSend, 0, 101));
  const Wc wc = pair.completion(1);
  EXPECT_EQ(wc.wr_id, 9u);
  EXPECT_EQ(wc.status, WcStatus::kLocLenErr);
  EXPECT_EQ(pair.completion(0).status, WcStatus::kRemInvReqErr);
  EXPECT_EQ(pair.right[0], 0);
}

TEST(RoceEngine, a_fence_waits_for_the_reads_before_it) {
  Pair pair;
  bool response_seen = false, write_seen_before = false;
  pair.net.filter = [&](const NetPacket& p) {
    response_seen = response_seen || (p.from == 1 && p.headers().bth.op == Op::kReadOnly);
    if (p.from == 0 && p.headers().bth.op == Op::kWriteOnly && !response_seen) write_seen_before = true;
    return false;
  };
  ASSERT_TRUE(pair.post(Opcode::kRead, 0, 100));
  ASSERT_TRUE(pair.post(Opcode::kWrite, 200, 100, 0, send_flag::kSignaled | send_flag::kFence));
  pair.completion(0);
  pair.completion(0);
  EXPECT_FALSE(write_seen_before);
}

TEST(RoceEngine, no_more_reads_are_out_than_agreed) {
  QpParams params;
  params.max_rd_atomic = 2;
  Pair pair(plain(), {}, params);
  int out = 0, most = 0;
  pair.net.filter = [&](const NetPacket& p) {
    if (p.from == 0 && p.headers().bth.op == Op::kReadRequest) most = std::max(most, ++out);
    if (p.from == 1 && info(p.headers().bth.op).last) --out;
    return false;
  };
  for (uint32_t i = 0; i < 9; ++i) ASSERT_TRUE(pair.post(Opcode::kRead, i * 2048, 2048));
  for (int i = 0; i < 9; ++i) EXPECT_EQ(pair.completion(0).status, WcStatus::kSuccess);
  EXPECT_EQ(most, 2);
}

TEST(RoceEngine, acknowledgements_are_fewer_than_packets) {
  Pair pair;
  ASSERT_TRUE(pair.post(Opcode::kWrite, 0, 64 * 1024));
  pair.completion(0);
  EXPECT_EQ(pair.counters(0).tx_data, 64u);
  EXPECT_LE(pair.counters(1).acks_sent, 64u / 16 + 1);
}

TEST(RoceEngine, a_packet_from_another_peer_is_dropped) {
  Pair pair;
  Headers h;
  h.bth.op = Op::kCnp;
  h.bth.dqpn = pair.qa;
  std::byte bytes[kMaxHeader];
  const size_t length = encode(h, bytes);
  pair.net.engine(0).on_packet(pair.net.now(), {7, Ecn::kNotEct, {bytes, length}, 0});
  EXPECT_EQ(pair.counters(0).drop_qp, 1u);
  EXPECT_EQ(pair.counters(0).cnps_received, 0u);
  pair.net.engine(0).on_packet(pair.net.now(), {1, Ecn::kNotEct, {bytes, length}, 0});
  EXPECT_EQ(pair.counters(0).cnps_received, 1u);
}

TEST(RoceEngine, an_ack_for_what_was_never_sent_is_dropped) {
  Pair pair;
  pair.net.filter = [](const NetPacket&) { return true; };
  ASSERT_TRUE(pair.post(Opcode::kWrite, 0, 100));
  uint32_t psn = 0;
  pair.net.filter = [&](const NetPacket& p) {
    psn = p.headers().bth.psn;
    return true;
  };
  pair.net.run_for(micros(1));
  Headers h;
  h.bth.op = Op::kAck;
  h.bth.dqpn = pair.qa;
  h.bth.psn = psn + 1;
  h.aeth.syndrome = kNoCredits;
  std::byte bytes[kMaxHeader];
  const size_t length = encode(h, bytes);
  pair.net.engine(0).on_packet(pair.net.now(), {1, Ecn::kNotEct, {bytes, length}, 0});
  EXPECT_EQ(pair.counters(0).drop_response, 1u);
  Wc wc;
  EXPECT_FALSE(pair.net.engine(0).poll_completion(wc));
  h.bth.psn = psn;
  encode(h, bytes);
  pair.net.engine(0).on_packet(pair.net.now(), {1, Ecn::kNotEct, {bytes, length}, 0});
  EXPECT_TRUE(pair.net.engine(0).poll_completion(wc));
}

TEST(RoceEngine, a_destroyed_queue_pair_leaves_no_work_behind) {
  Pair pair;
  ASSERT_TRUE(pair.post(Opcode::kWrite, 0, 60000));
  pair.net.run_for(micros(1));
  ASSERT_TRUE(pair.net.engine(0).destroy_qp(pair.qa));
  pair.net.run_for(millis(10));
  EXPECT_EQ(pair.net.engine(0).next_deadline(), kNever);
  EXPECT_EQ(pair.net.engine(0).destroy_qp(pair.qa).error(), Errc::kNotFound);
  EXPECT_EQ(pair.post(Opcode::kWrite, 0, 1).error(), Errc::kNotFound);
}

TEST(RoceEngine, ce_is_answered_with_one_cnp_in_each_gap) {
  EngineConfig config = plain();
  config.dcqcn.enabled = true;
  config.cnp_gap = micros(4);
  NetOptions options;
  options.kmin = options.kmax = -1;  // every packet is marked
  Pair pair(config, options);
  ASSERT_TRUE(pair.post(Opcode::kWrite, 0, 65536));
  pair.completion(0);
  pair.net.run_for(micros(20));
  EXPECT_EQ(pair.counters(1).ce_received, 64u);
  const auto spent = static_cast<uint64_t>(ns_of(pair.net.now()) / 4000);
  EXPECT_GE(pair.counters(1).cnps_sent, 2u);
  EXPECT_LE(pair.counters(1).cnps_sent, spent);
  EXPECT_EQ(pair.counters(0).cnps_received, pair.counters(1).cnps_sent);
  EXPECT_LT(pair.net.engine(0).qp_stats(pair.net.now(), pair.qa)->rate_bps, 60e9);
}

}  // namespace
}  // namespace mroce::rocev2
