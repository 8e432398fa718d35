// Two endpoints of this process on loopback, with one connected queue pair between them.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/rng.h"
#include "net/endpoint.h"

namespace mroce::net {

inline constexpr auto kPatience = std::chrono::seconds(60);

using Overrides = std::vector<std::pair<std::string, std::string>>;

class CountingSink : public EventSink {
 public:
  void on_event(const Event& event) override {
    if (event.kind == EventKind::kCompletion) completions.fetch_add(1);
  }
  std::atomic<uint64_t> completions{0};
};

inline Settings loopback_settings(const Overrides& overrides = {}) {
  Settings settings;
  Overrides all = {{"addresses", "127.0.0.1"}, {"base_port", "62512"}, {"seed", "1"}, {"log", "error"}};
  all.insert(all.end(), overrides.begin(), overrides.end());
  for (const auto& [name, value] : all) {
    const auto set = settings.set(name, value, "flag --" + name);
    EXPECT_TRUE(set.has_value()) << set.error();
  }
  return settings;
}

struct Side {
  explicit Side(const Settings& settings, size_t memory_bytes) : memory(memory_bytes / 8) {
    auto opened = Endpoint::open(settings, sink);
    if (!opened) {
      ADD_FAILURE() << opened.error();
      return;
    }
    endpoint = std::move(*opened);
    endpoint->command([&](Engine& engine, Time) {
      pd = *engine.alloc_pd();
      cq = *engine.create_cq(4096, 1);
      mr = *engine.reg_mr(pd, address(0), memory_bytes, address(0), access::kAll);
      QpInit init;
      init.pd = pd;
      init.send_cq = init.recv_cq = cq;
      init.cap = {.max_send_wr = 512, .max_recv_wr = 512, .max_send_sge = 4, .max_recv_sge = 4};
      qp = *engine.create_qp(init);
      return true;
    });
  }

  uint64_t address(size_t offset) { return reinterpret_cast<uintptr_t>(bytes() + offset); }
  uint8_t* bytes() { return reinterpret_cast<uint8_t*>(memory.data()); }
  uint32_t number() {
    return endpoint->inspect([&](const Engine& engine) { return engine.qp_num(qp); });
  }
  Sge sge(size_t offset, uint32_t length) { return {address(offset), length, mr.lkey}; }

  void connect(const Gid& remote, uint32_t remote_qpn) {
    const auto modify = [&](QpAttr attr, uint32_t mask) {
      const Status done =
          endpoint->command([&](Engine& engine, Time now) { return engine.modify_qp(now, qp, attr, mask); });
      ASSERT_TRUE(done.has_value()) << sentence_of(done.error());
    };
    using namespace qp_mask;
    QpAttr attr;
    attr.state = QpState::kInit;
    attr.access_flags = access::kAll;
    modify(attr, kState | kPkeyIndex | kPort | kAccessFlags);
    attr.state = QpState::kRtr;
    attr.dgid = remote;
    attr.dest_qpn = remote_qpn;
    attr.max_dest_rd_atomic = 16;
    attr.min_rnr_timer = 12;
    modify(attr, kState | kAv | kPathMtu | kDestQpn | kRqPsn | kMaxDestRdAtomic | kMinRnrTimer);
    attr.state = QpState::kRts;
    attr.timeout = 20;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 16;
    modify(attr, kState | kTimeout | kRetryCnt | kRnrRetry | kSqPsn | kMaxRdAtomic);
  }

  void post_send(SendWr wr) {
    const Status posted =
        endpoint->command([&](Engine& engine, Time now) { return engine.post_send(now, qp, wr); });
    ASSERT_TRUE(posted.has_value()) << sentence_of(posted.error());
  }
  void post_recv(uint64_t wr_id, const Sge& where) {
    const Status posted = endpoint->command([&](Engine& engine, Time now) {
      return engine.post_recv(now, qp, RecvWr{wr_id, {&where, 1}});
    });
    ASSERT_TRUE(posted.has_value()) << sentence_of(posted.error());
  }
  // Polls once and keeps what came.
  void poll() {
    std::array<Wc, 16> completions;
    const uint32_t count = endpoint->poll_cq(cq, completions);
    for (uint32_t i = 0; i < count; ++i) {
      EXPECT_EQ(completions[i].status, WcStatus::kSuccess);
      completed.push_back(completions[i]);
    }
  }

  CountingSink sink;
  std::vector<uint64_t> memory;  // 8-byte aligned, for atomics
  std::unique_ptr<Endpoint> endpoint;
  PdHandle pd;
  CqHandle cq;
  QpHandle qp;
  MrInfo mr;
  std::deque<Wc> completed;
};

struct EndpointPair {
  explicit EndpointPair(const Overrides& overrides = {}, size_t memory_bytes = 4 << 20)
      : EndpointPair(overrides, overrides, memory_bytes) {}
  EndpointPair(const Overrides& of_b, const Overrides& of_a, size_t memory_bytes = 4 << 20)
      : a(loopback_settings(of_a), memory_bytes), b(loopback_settings(of_b), memory_bytes) {
    if (!a.endpoint || !b.endpoint) return;
    const Gid gid = a.endpoint->gids()[0].gid;
    const uint32_t number_a = a.number();
    const uint32_t number_b = b.number();
    b.connect(gid, number_a);
    a.connect(gid, number_b);
  }

  // Polls `a` (and `b`, if asked) until `done`. False after kPatience.
  template <class F>
  bool poll_until(F&& done, bool also_b = true) {
    const auto limit = std::chrono::steady_clock::now() + kPatience;
    while (!done()) {
      a.poll();
      if (also_b) b.poll();
      if (std::chrono::steady_clock::now() > limit) {
        ADD_FAILURE() << "not done in time\n" << a.endpoint->stats_json() << b.endpoint->stats_json();
        return false;
      }
    }
    return true;
  }

  Side a;
  Side b;
};

inline void fill(uint8_t* bytes, size_t length, uint64_t seed) {
  Rng rng(seed);
  for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<uint8_t>(rng.next());
}

}  // namespace mroce::net
