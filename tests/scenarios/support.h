// Small steps that nearly every scenario takes: wait for a completion and judge it, compare memory, look at
// counters.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/harness/pair.h"

namespace mroce::test {

inline std::string show(const Wc& wc) {
  return "wr_id " + std::to_string(wc.wr_id) + " status " + std::to_string(static_cast<int>(wc.status));
}

// The next completion on `cq` must be this one.
inline testing::AssertionResult completes_on(World& world, Endpoint& endpoint, CqHandle cq, uint64_t wr_id,
                                             WcStatus status = WcStatus::kSuccess,
                                             Nanos limit = seconds(10)) {
  const auto wc = world.wait_for(endpoint, cq, limit);
  if (!wc) return testing::AssertionFailure() << "no completion of work request " << wr_id;
  if (wc->wr_id == wr_id && wc->status == status) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "completion is " << show(*wc) << ", not wr_id " << wr_id << " status "
                                     << static_cast<int>(status);
}

inline testing::AssertionResult completes(World& world, const Qp& qp, uint64_t wr_id,
                                          WcStatus status = WcStatus::kSuccess, Nanos limit = seconds(10)) {
  return completes_on(world, *qp.endpoint, qp.send_cq, wr_id, status, limit);
}

inline testing::AssertionResult receives(World& world, const Qp& qp, uint64_t wr_id,
                                         WcStatus status = WcStatus::kSuccess, Nanos limit = seconds(10)) {
  return completes_on(world, *qp.endpoint, qp.recv_cq, wr_id, status, limit);
}

// Nothing completes on `cq` for this long.
inline testing::AssertionResult is_quiet(World& world, Endpoint& endpoint, CqHandle cq, Nanos duration) {
  const auto wc = world.wait_for(endpoint, cq, duration);
  if (!wc) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "unexpected completion: " << show(*wc);
}

// Do the regions of a Pair hold the same bytes at these places?
inline bool same(Pair& pair, size_t at_a, size_t at_b, size_t length) {
  return std::ranges::equal(pair.bytes_a(at_a, length), pair.bytes_b(at_b, length));
}

// Writes `bytes` from A to B as one message and waits for it; the virtual time that it took.
inline Nanos write_and_wait(Pair& pair, uint64_t wr_id, uint32_t bytes, uint32_t at = 0,
                            Nanos limit = seconds(30)) {
  const Time begin = pair.now();
  EXPECT_TRUE(pair.qa.write(wr_id, {pair.ma.sge(at, bytes)}, pair.mb.addr + at, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, pair.qa, wr_id, WcStatus::kSuccess, limit));
  return pair.now() - begin;
}

// A connection that works, with all its paths.
inline void warm_up(Pair& pair) {
  write_and_wait(pair, 0xfeed, 64);
  pair.run_for(millis(50));
}

inline ConnectionStats stats_of(const Endpoint& from, const Endpoint& to) {
  return from.connection_to(to).value_or(ConnectionStats{});
}

inline size_t open_connections(const Endpoint& endpoint) {
  const auto all = endpoint.look().connection_stats();
  return static_cast<size_t>(
      std::ranges::count_if(all, [](const ConnectionStats& stats) { return stats.state == "OPEN"; }));
}

// One more pair of connected queue pairs between the endpoints of a Pair.
struct Link {
  Qp a, b;
};
inline Link add_link(Pair& pair, const QpOptions& options = {}, const ConnectOptions& connection = {}) {
  Link link{pair.a.make_qp(options), pair.b.make_qp(options)};
  connect(link.a, link.b, connection);
  return link;
}

inline EndpointOptions tweaked(std::function<void(EngineConfig&)> tweak) {
  EndpointOptions options;
  options.tweak = std::move(tweak);
  return options;
}

inline double us(Nanos duration) {
  return static_cast<double>(duration.count()) / 1e3;
}

}  // namespace mroce::test
