// What a burst looks like: docs/spec, "Bursts and the choice of a path".
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "core/mroce/test_support.h"

namespace mroce::test {
namespace {

// The datagrams of a burst, each in one piece.
std::vector<std::vector<std::byte>> datagrams_of(const TxBurst& burst) {
  std::vector<std::byte> all;
  for (const Slice& slice : burst.slices) all.insert(all.end(), slice.data, slice.data + slice.length);
  EXPECT_EQ(all.size(), burst.total_bytes);
  std::vector<std::vector<std::byte>> result;
  for (size_t at = 0; at < all.size(); at += burst.segment_bytes) {
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(at);
    result.emplace_back(
        from, from + static_cast<std::ptrdiff_t>(std::min<size_t>(burst.segment_bytes, all.size() - at)));
  }
  EXPECT_EQ(result.size(), burst.segments);
  return result;
}

class Bursts : public testing::Test {
 protected:
  static constexpr uint64_t kBytes = 1 << 20;
  Bursts() {
    rig.open_stream(c, qp);
    const auto key = rig.engine.mrs.add({rig.pd(), 0x100000, kBytes, 0x100000, access::kAll, 0});
    EXPECT_TRUE(key.has_value());
    lkey = *key;
    for (Path& p : c.paths) {
      p.cc.cwnd = 1000;
      p.probe_at = kNever;
    }
  }
  void write(std::vector<Sge> sges, uint32_t flags = 0) {
    SendWr wr;
    wr.opcode = Opcode::kWrite;
    wr.flags = flags;
    wr.sges = sges;
    ASSERT_TRUE(rig.engine.post_send(rig.now, qp, wr));
  }
  // Everything that goes out until nothing may; checks what must hold of each burst.
  void drain() {
    TxBurst burst;
    for (int i = 0; i < 10000; ++i) {
      rig.memory.forget();
      if (!rig.engine.poll_transmit(rig.now, burst)) return;
      check(burst);
    }
    FAIL() << "no end";
  }
  void check(const TxBurst& burst) {
    ++bursts;
    ASSERT_GE(burst.segments, 1u);
    ASSERT_LE(burst.segments, kMaxSegments);
    ASSERT_LE(burst.total_bytes, std::max(kMaxBurstBytes, c.full_packet()));
    const auto datagrams = datagrams_of(burst);
    for (size_t i = 0; i < datagrams.size(); ++i) {
      const auto& datagram = datagrams[i];
      ASSERT_TRUE(i + 1 == datagrams.size() || datagram.size() == burst.segment_bytes);
      ASSERT_TRUE(wire::check_trailer(datagram)) << "datagram " << i;
      wire::Common header;
      ASSERT_TRUE(wire::decode_common(datagram, header));
      ASSERT_EQ(header.path, burst.path);
      if (header.type != wire::Type::kData) continue;
      wire::Data data;
      wire::In payload;
      const wire::In body = wire::In(datagram).first(datagram.size() - wire::kTrailerBytes);
      ASSERT_TRUE(wire::decode_data(body, header, data, payload));
      if (wire::is_stream_control(data.op)) continue;
      ASSERT_LE(payload.size(), c.payload_mtu);
      auto& message = messages[data.msn];
      message.resize(data.length);
      ASSERT_LE(data.offset + payload.size(), message.size());
      std::ranges::copy(payload, message.begin() + data.offset);
      got += payload.size();
    }
  }
  void expect_message(uint32_t msn, const std::vector<Sge>& sges) {
    size_t i = 0;
    for (const Sge& sge : sges) {
      for (uint32_t j = 0; j < sge.length; ++j, ++i) {
        ASSERT_EQ(messages[msn][i], PatternMemory::at(sge.addr + j)) << "message " << msn << " byte " << i;
      }
    }
    EXPECT_EQ(messages[msn].size(), i);
  }

  Rig rig;
  Connection& c = rig.open(3);
  QueuePair& qp = rig.make_qp({128, 1, 4, 1, 256});
  uint32_t lkey = 0;
  std::map<uint32_t, std::vector<std::byte>> messages;
  uint64_t got = 0;
  uint32_t bursts = 0;
};

TEST_F(Bursts, bytes_that_follow_each_other_in_memory_become_one_slice) {
  const std::array<std::byte, 100> bytes{};
  rig.engine.slices.clear();
  rig.engine.add_slice(bytes.data(), 10);
  rig.engine.add_slice(bytes.data() + 10, 20);
  rig.engine.add_slice(bytes.data() + 30, 0);
  rig.engine.add_slice(bytes.data() + 50, 5);
  rig.engine.add_slice(bytes.data() + 40, 5);
  ASSERT_EQ(rig.engine.slices.size(), 3u);
  EXPECT_EQ(rig.engine.slices[0].data, bytes.data());
  EXPECT_EQ(rig.engine.slices[0].length, 30u);
  EXPECT_EQ(rig.engine.slices[1].data, bytes.data() + 50);
  EXPECT_EQ(rig.engine.slices[2].data, bytes.data() + 40);
}

TEST_F(Bursts, carry_a_long_message_in_packets_of_one_size) {
  const std::vector<Sge> sges{{0x100000, 100000, lkey}};
  write(sges);
  drain();
  EXPECT_EQ(got, 100000u);
  EXPECT_GT(bursts, 1u);
  EXPECT_LT(bursts, 10u);
  expect_message(0, sges);
}

TEST_F(Bursts, take_a_message_from_several_places) {
  const std::vector<Sge> sges{
      {0x100000, 1, lkey}, {0x100777, 3000, lkey}, {0x180001, 0, lkey}, {0x100005, 1023, lkey}};
  write(sges);
  drain();
  expect_message(0, sges);
}

TEST_F(Bursts, carry_inline_bytes_as_they_were_when_posted) {
  const std::vector<Sge> sges{{0x5000, 200, 0}};  // no region: the bytes are taken at once
  write(sges, send_flag::kInline);
  drain();
  expect_message(0, sges);
}

TEST_F(Bursts, carry_messages_of_any_sizes) {
  Rng rng(4);
  std::vector<std::vector<Sge>> all;
  for (int i = 0; i < 100; ++i) {
    std::vector<Sge> sges;
    for (uint64_t n = rng.below(5); n > 0; --n) {
      const auto length = static_cast<uint32_t>(rng.below(rng.chance(0.3) ? 5000 : 300));
      sges.push_back({0x100000 + rng.below(kBytes - length), length, lkey});
    }
    write(sges);
    all.push_back(sges);
  }
  drain();
  for (uint32_t msn = 0; msn < 100; ++msn) expect_message(msn, all[msn]);
}

TEST_F(Bursts, stop_when_the_window_of_the_connection_is_full) {
  rig.engine.config.window_bytes = 20000;
  write({{0x100000, 200000, lkey}});
  drain();
  EXPECT_LE(c.inflight_bytes, 20000u);
  EXPECT_GT(c.inflight_bytes + c.full_packet(), 20000u);
}

TEST_F(Bursts, stop_when_the_windows_of_the_paths_are_full) {
  for (Path& p : c.paths) p.cc.cwnd = 5.9;
  write({{0x100000, 200000, lkey}});
  drain();
  for (const Path& p : c.paths) EXPECT_EQ(p.inflight, 5u);
}

TEST_F(Bursts, stop_at_the_limit_of_packet_numbers) {
  c.cpsn_limit = c.tx.end() + 7;
  write({{0x100000, 200000, lkey}});
  drain();
  EXPECT_EQ(c.tx.size(), 7u);
}

TEST_F(Bursts, of_a_message_without_a_region_carry_none_of_its_bytes) {
  write({{0x900000, 5000, lkey}});
  drain();
  EXPECT_EQ(got, 0u);
  EXPECT_EQ(qp.state, QpState::kErr);
}

TEST_F(Bursts, use_all_paths) {
  rig.engine.config.window_bytes = 200000;
  write({{0x100000, 150000, lkey}});
  drain();
  for (const Path& p : c.paths) EXPECT_GT(p.inflight, 0u) << int{p.id};
}

// Spec 4.8-7: no DATA on a path that has not proved that it leads to the peer, whatever else is left.
TEST_F(Bursts, of_a_tail_loss_probe_wait_rather_than_use_a_new_path) {
  write({{0x100000, 1000, lkey}});
  drain();
  for (Path& p : c.paths) p.state = PathState::kFailed;
  Path& last = c.paths.back();
  c.ack_path = last.id;
  last.state = PathState::kNew;
  TxBurst burst;
  EXPECT_FALSE(rig.engine.tail_loss_probe(rig.now, c, burst));
  last.state = PathState::kFailed;
  EXPECT_TRUE(rig.engine.tail_loss_probe(rig.now, c, burst));
}

}  // namespace
}  // namespace mroce::test
