// Two endpoints over real sockets: every operation, data verified, with and without a bad network, polled and
// unpolled.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <thread>

#include "net/endpoint_test_support.h"
#include "net/test_support.h"

namespace mroce::net {
namespace {

constexpr size_t kMi = 1 << 20;

SendWr signaled(Opcode opcode, const Sge& sge, uint64_t remote = 0, uint32_t rkey = 0) {
  SendWr wr;
  wr.opcode = opcode;
  wr.flags = send_flag::kSignaled;
  wr.sges = {&sge, 1};
  wr.remote_addr = remote;
  wr.rkey = rkey;
  return wr;
}

class Traffic : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { ASSERT_TRUE(pair_.a.endpoint && pair_.b.endpoint); }

  EndpointPair pair_{Overrides{{"impair", GetParam()}}};
};

TEST_P(Traffic, a_write_of_a_megabyte_arrives_whole) {
  fill(pair_.a.bytes(), kMi, 1);
  const Sge from = pair_.a.sge(0, kMi);
  pair_.a.post_send(signaled(Opcode::kWrite, from, pair_.b.address(kMi), pair_.b.mr.rkey));
  ASSERT_TRUE(pair_.poll_until([&] { return pair_.a.completed.size() == 1; }));
  EXPECT_EQ(std::memcmp(pair_.a.bytes(), pair_.b.bytes() + kMi, kMi), 0);
}

TEST_P(Traffic, sends_of_many_sizes_arrive_in_order) {
  constexpr uint32_t kMessages = 200;
  constexpr uint32_t kSlot = 16384;
  Rng rng(5);
  std::vector<uint32_t> lengths;
  fill(pair_.a.bytes(), 4 * kMi, 2);
  for (uint32_t i = 0; i < kMessages; ++i) {
    lengths.push_back(static_cast<uint32_t>(rng.between(0, kSlot)));
    pair_.b.post_recv(i, pair_.b.sge(size_t{i} * kSlot, kSlot));
  }
  for (uint32_t i = 0; i < kMessages; ++i) {
    const Sge from = pair_.a.sge(size_t{i} * kSlot, lengths[i]);
    pair_.a.post_send(signaled(Opcode::kSend, from));
  }
  ASSERT_TRUE(pair_.poll_until(
      [&] { return pair_.a.completed.size() == kMessages && pair_.b.completed.size() == kMessages; }));
  for (uint32_t i = 0; i < kMessages; ++i) {
    EXPECT_EQ(pair_.b.completed[i].wr_id, i);
    EXPECT_EQ(pair_.b.completed[i].byte_len, lengths[i]);
    const size_t at = size_t{i} * kSlot;
    ASSERT_EQ(std::memcmp(pair_.a.bytes() + at, pair_.b.bytes() + at, lengths[i]), 0) << i;
  }
}

TEST_P(Traffic, reads_bring_what_is_there) {
  fill(pair_.b.bytes(), 2 * kMi, 3);
  for (size_t i = 0; i < 8; ++i) {
    const Sge to = pair_.a.sge(i * kMi / 4, kMi / 4);
    pair_.a.post_send(signaled(Opcode::kRead, to, pair_.b.address(i * kMi / 4), pair_.b.mr.rkey));
  }
  ASSERT_TRUE(pair_.poll_until([&] { return pair_.a.completed.size() == 8; }));
  EXPECT_EQ(std::memcmp(pair_.a.bytes(), pair_.b.bytes(), 2 * kMi), 0);
}

TEST_P(Traffic, atomics_happen_exactly_once_each) {
  constexpr uint32_t kAdds = 100;
  for (uint32_t i = 0; i < kAdds; ++i) {
    const Sge to = pair_.a.sge(size_t{i} * 8, 8);
    SendWr wr = signaled(Opcode::kFetchAdd, to, pair_.b.address(0), pair_.b.mr.rkey);
    wr.compare_or_add = 3;
    pair_.a.post_send(wr);
  }
  const Sge to = pair_.a.sge(kAdds * 8, 8);
  SendWr swap = signaled(Opcode::kCompareSwap, to, pair_.b.address(0), pair_.b.mr.rkey);
  swap.compare_or_add = kAdds * 3;
  swap.swap = 7;
  pair_.a.post_send(swap);
  ASSERT_TRUE(pair_.poll_until([&] { return pair_.a.completed.size() == kAdds + 1; }));
  for (uint32_t i = 0; i < kAdds; ++i) EXPECT_EQ(pair_.a.memory[i], uint64_t{i} * 3);
  EXPECT_EQ(pair_.b.memory[0], 7u);
}

TEST_P(Traffic, a_passive_target_answers_while_nobody_polls_it) {
  fill(pair_.b.bytes(), kMi, 4);
  fill(pair_.a.bytes() + kMi, kMi, 5);
  const Sge from = pair_.a.sge(kMi, kMi);
  const Sge to = pair_.a.sge(0, kMi);
  pair_.a.post_send(signaled(Opcode::kWrite, from, pair_.b.address(kMi), pair_.b.mr.rkey));
  pair_.a.post_send(signaled(Opcode::kRead, to, pair_.b.address(0), pair_.b.mr.rkey));
  ASSERT_TRUE(pair_.poll_until([&] { return pair_.a.completed.size() == 2; }, false));
  EXPECT_EQ(std::memcmp(pair_.a.bytes(), pair_.b.bytes(), 2 * kMi), 0);
}

TEST_P(Traffic, programs_that_spin_on_the_last_byte_need_no_poll) {
  constexpr uint8_t kRounds = 50;
  for (uint8_t round = 1; round <= kRounds; ++round) {
    for (Side* sender : {&pair_.a, &pair_.b}) {
      Side& receiver = sender == &pair_.a ? pair_.b : pair_.a;
      const size_t source = 8192 + size_t{round} * 64;  // what is in flight must not change
      sender->bytes()[source + 63] = round;
      const Sge from = sender->sge(source, 64);
      SendWr wr = signaled(Opcode::kWrite, from, receiver.address(4096), receiver.mr.rkey);
      sender->post_send(wr);
      const auto limit = std::chrono::steady_clock::now() + kPatience;
      while (__atomic_load_n(receiver.bytes() + 4096 + 63, __ATOMIC_ACQUIRE) != round) {
        ASSERT_LT(std::chrono::steady_clock::now(), limit) << receiver.endpoint->stats_json();
      }
    }
  }
  ASSERT_TRUE(pair_.poll_until(
      [&] { return pair_.a.completed.size() == kRounds && pair_.b.completed.size() == kRounds; }));
}

TEST_P(Traffic, several_threads_share_one_endpoint) {
  constexpr uint32_t kEach = 100;
  constexpr uint32_t kThreads = 3;
  fill(pair_.a.bytes(), kThreads * kEach * 1024, 6);
  std::atomic<uint32_t> completed{0};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < kEach; ++i) {
        const size_t at = (size_t{t} * kEach + i) * 1024;
        const Sge from = pair_.a.sge(at, 1024);
        pair_.a.post_send(signaled(Opcode::kWrite, from, pair_.b.address(at), pair_.b.mr.rkey));
        std::array<Wc, 4> out;
        completed += pair_.a.endpoint->poll_cq(pair_.a.cq, out);
      }
      const auto limit = std::chrono::steady_clock::now() + kPatience;
      while (completed < kThreads * kEach && std::chrono::steady_clock::now() < limit) {
        std::array<Wc, 4> out;
        completed += pair_.a.endpoint->poll_cq(pair_.a.cq, out);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(completed.load(), kThreads * kEach);
  EXPECT_EQ(std::memcmp(pair_.a.bytes(), pair_.b.bytes(), kThreads * kEach * 1024), 0);
}

TEST_P(Traffic, a_close_right_after_the_last_completion_costs_the_peer_nothing) {
  const Sge from = pair_.a.sge(0, 100);
  pair_.b.post_recv(1, pair_.b.sge(0, 100));
  pair_.a.post_send(signaled(Opcode::kSend, from));
  ASSERT_TRUE(pair_.poll_until([&] { return !pair_.a.completed.empty(); }));
  pair_.a.endpoint->close();
  ASSERT_TRUE(pair_.poll_until([&] { return !pair_.b.completed.empty(); }));
  EXPECT_EQ(pair_.b.completed[0].status, WcStatus::kSuccess);
}

constexpr const char* kNames[] = {"clean", "loss1", "loss10", "far"};

INSTANTIATE_TEST_SUITE_P(Networks, Traffic,
                         ::testing::Values("", "loss=1%,reorder=1%:200us,duplicate=1%,dir=both",
                                           "loss=10%,reorder=2%:300us,duplicate=2%,corrupt=1%",
                                           "delay=300us:100us,ce=5%,burst=0.2%:6"),
                         [](const auto& param) { return kNames[param.index]; });

TEST(TrafficStatistics, say_what_was_carried) {
  EndpointPair pair(Overrides{{"impair", "loss=1%"}});
  ASSERT_TRUE(pair.a.endpoint && pair.b.endpoint);
  const Sge from = pair.a.sge(0, 2 * kMi);
  pair.a.post_send(signaled(Opcode::kWrite, from, pair.b.address(0), pair.b.mr.rkey));
  ASSERT_TRUE(pair.poll_until([&] { return pair.a.completed.size() == 1; }));
  const auto json = nlohmann::json::parse(pair.a.endpoint->stats_json());
  ASSERT_EQ(json.at("connections").size(), 1u);
  const auto& connection = json.at("connections")[0];
  EXPECT_EQ(connection.at("counters").at("payload_bytes_sent"), 2 * kMi);
  EXPECT_GT(connection.at("goodput_sent_gbps").get<double>(), 0.0);
  EXPECT_GE(connection.at("paths").size(), 1u);
  const auto& out = json.at("impairment").at("out");
  EXPECT_EQ(out.at("offered").get<uint64_t>() + out.at("duplicated").get<uint64_t>(),
            out.at("delivered").get<uint64_t>() + out.at("dropped").get<uint64_t>() +
                out.at("queued").get<uint64_t>());
  EXPECT_GT(out.at("offered"), 500);
}

// The times of all frames of a capture, as tshark prints them.
std::vector<std::string> times_of(const std::string& path) {
  const std::string command = "tshark -r " + path + " -T fields -e frame.time_epoch 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::vector<std::string> times;
  char buffer[128];
  while (pipe && std::fgets(buffer, sizeof buffer, pipe.get()) != nullptr) times.emplace_back(buffer);
  return times;
}

TEST(TrafficTrace, does_not_step_back_in_time_when_something_arrives_during_a_command) {
  if (std::system("command -v tshark >/dev/null 2>&1") != 0) MROCE_CANNOT("no tshark on this host");
  const std::string path = ::testing::TempDir() + "mroce-traffic-" + std::to_string(getpid()) + ".pcapng";
  EndpointPair pair(Overrides{}, Overrides{{"trace", path}});
  ASSERT_TRUE(pair.a.endpoint && pair.b.endpoint);
  Side& a = pair.a;
  Side& b = pair.b;
  const auto write = [](Side& from, Side& to, uint32_t length) {
    const Sge sge = from.sge(0, length);
    return from.endpoint->command([&](Engine& engine, Time now) {
      return engine.post_send(now, from.qp, signaled(Opcode::kWrite, sge, to.address(kMi), to.mr.rkey))
          .has_value();
    });
  };
  constexpr uint32_t kRounds = 20;
  constexpr uint32_t kWrites = 100;  // of two sizes in turn: more bursts than one round of progress may send
  for (uint32_t i = 1; i <= kRounds; ++i) {
    EXPECT_TRUE(a.endpoint->command([&](Engine& engine, Time began) {
      for (uint32_t j = 0; j < kWrites; ++j) {
        const Sge sge = a.sge(0, j % 2 == 0 ? 64 : 500);
        const SendWr wr = signaled(Opcode::kWrite, sge, b.address(kMi), b.mr.rkey);
        if (!engine.post_send(began, a.qp, wr)) return false;
      }
      // The peer's packet comes after the command began, which then is long enough to look for it.
      const bool posted = write(b, a, 64);
      while (b.endpoint->command([](Engine&, Time now) { return now; }) < began + micros(50)) {
      }
      return posted;
    }));
    ASSERT_TRUE(
        pair.poll_until([&] { return a.completed.size() == i * kWrites && b.completed.size() == i; }));
  }
  a.endpoint->close();
  const auto times = times_of(path);
  unlink(path.c_str());
  EXPECT_GT(times.size(), kRounds * kWrites);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
}

}  // namespace
}  // namespace mroce::net
