// Who is who: endpoints behind several addresses, equal numbers on different hosts, and connections that one
// side has lost.
#include <set>

#include "tests/scenarios/support.h"

namespace mroce::test {
namespace {

using wire::DataOp;
using wire::Type;

// A queue pair of this number, which is free.
Qp qp_numbered(Endpoint& endpoint, uint32_t number) {
  QpOptions options;
  options.send_cq = endpoint.make_cq();
  options.recv_cq = endpoint.make_cq();
  Qp qp = endpoint.make_qp(options);
  for (int i = 0; i < 65519 && qp.number != number; ++i) {
    qp.destroy();
    qp = endpoint.make_qp(options);
  }
  EXPECT_EQ(qp.number, number);
  return qp;
}

// Numbers of queue pairs and first PSNs are equal on different hosts more often than not.
TEST(EqualNumbers, on_another_host_open_no_stream_to_a_queue_pair_that_means_somebody_else) {
  Pair pair;
  Endpoint& c = pair.add_endpoint({});
  warm_up(pair);
  wire::StopReason reason = wire::StopReason::kNone;
  pair.network().on_sent([&](const PacketView& p) {
    if (p.is(DataOp::kStreamRefuse) && p.to == c.index()) reason = p.stream_control()->reason;
  });
  const Qp impostor = qp_numbered(c, pair.qa.number);
  const Mr mc = c.make_mr(100000);
  ConnectOptions options;
  options.retry_cnt = 1;
  connect_one(impostor, pair.qb, options);
  Pair::fill(pair.bytes_a(0, 500000), 1);
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 500000)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(impostor.write(2, {mc.sge()}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, pair.qa, 1));
  EXPECT_TRUE(completes(pair, impostor, 2, WcStatus::kRetryExcErr));
  EXPECT_EQ(reason, wire::StopReason::kMismatch);
  EXPECT_TRUE(same(pair, 0, 0, 500000));
  write_and_wait(pair, 3, 100000);
}

TEST(EqualNumbers, on_two_hosts_that_are_both_meant_work_side_by_side) {
  Pair pair;
  Endpoint& c = pair.add_endpoint({});
  const Qp at_c = qp_numbered(c, pair.qa.number);
  const Qp for_c = pair.b.make_qp();
  connect(at_c, for_c);
  const Mr mc = c.make_mr(100000);
  ASSERT_TRUE(at_c.write(1, {mc.sge()}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.qa.write(2, {pair.ma.sge(0, 100000)}, pair.mb.addr + 200000, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, at_c, 1));
  EXPECT_TRUE(completes(pair, pair.qa, 2));
}

// A has lost the connection, B still believes in it and says so when A calls again. A ends it by the token
// that came with this answer; B does not have to find out by silence.
TEST(StaleConnection, of_a_peer_that_still_believes_in_it_is_reset) {
  PairOptions options;
  options.connection.timeout = 0;  // the connection ends, not the queue pair
  Pair pair(options);
  warm_up(pair);
  uint32_t resets = 0;
  pair.network().on_sent([&](const PacketView& p) { resets += p.is(Type::kReset) ? 1u : 0u; });
  pair.network().faults(pair.b.index(), pair.a.index()).cut = true;
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(completes(pair, pair.qa, 1, WcStatus::kRetryExcErr));
  ASSERT_EQ(open_connections(pair.a), 0u);
  ASSERT_EQ(open_connections(pair.b), 1u);
  pair.network().stop_faults();
  const Link link = add_link(pair);
  ASSERT_TRUE(link.a.write(2, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, link.a, 2, WcStatus::kSuccess, millis(200)));
  EXPECT_EQ(resets, 1u);
  EXPECT_EQ(pair.qb.state(), QpState::kErr) << "what ran over the old one has ended";
  EXPECT_EQ(open_connections(pair.a), 1u);
  EXPECT_EQ(open_connections(pair.b), 1u);
}

// B cannot reach the subnet of A's second port, so its third plane is A's fourth port. What A says of its
// ports has the order of A's handshake.
class PortStatus : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(port, PortStatus, testing::Values(2, 3));

TEST_P(PortStatus, means_the_ports_in_the_order_of_the_handshake) {
  World world(1);
  EndpointOptions all, without_second;
  all.planes = without_second.planes = 4;
  all.tweak = [](EngineConfig& config) { config.max_paths = 6; };
  without_second.tweak = [](EngineConfig& config) {
    config.max_paths = 6;
    config.ports[1].address.raw[13] = 99;
  };
  Endpoint& a = world.add_endpoint(all);
  Endpoint& b = world.add_endpoint(without_second);
  const Mr ma = a.make_mr(100000), mb = b.make_mr(100000);
  const Qp qa = a.make_qp(), qb = b.make_qp();
  connect(qa, qb);
  ASSERT_TRUE(qa.write(1, {ma.sge()}, mb.addr, mb.rkey));
  ASSERT_TRUE(completes(world, qa, 1));
  world.run_for(millis(50));
  ASSERT_EQ(stats_of(b, a).paths.size(), 6u);
  a.set_link(GetParam(), false);
  world.run_for(millis(1));
  for (const PathStats& path : stats_of(b, a).paths) {
    const bool down = path.remote == a.gid(GetParam());
    EXPECT_EQ(path.state, down ? PathState::kFailed : PathState::kActive) << "path " << int{path.id};
  }
}

// ---- one endpoint behind two addresses

PairOptions two_planes() {
  PairOptions options;
  options.planes = 2;
  return options;
}

ConnectOptions by_plane(uint32_t plane) {
  ConnectOptions options;
  options.local_port = options.remote_port = plane;
  return options;
}

// The second address led to the connection that existed. When that one ends, both addresses must be free.
class MergedConnection : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(ended_by, MergedConnection, testing::Bool(),
                         [](const auto& param) { return param.param ? "CLOSE" : "silence"; });

TEST_P(MergedConnection, leaves_no_address_behind_when_it_ends) {
  Pair pair(two_planes());
  warm_up(pair);
  const Link other = add_link(pair, {}, by_plane(1));
  ASSERT_TRUE(other.a.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(completes(pair, other.a, 1));
  ASSERT_EQ(open_connections(pair.a), 1u);
  if (GetParam()) {
    pair.b.engine().shutdown(pair.now());
    ASSERT_TRUE(pair.run_until([&] { return pair.a.look().quiescent(); }, seconds(3)));
    pair.run_for(seconds(3));
  } else {
    pair.b.crash();
    pair.run_for(seconds(20));
    ASSERT_TRUE(pair.a.look().quiescent());
  }
  pair.b.restart();
  const Mr fresh = pair.b.make_mr(1000);
  for (const uint32_t plane : {1u, 0u}) {
    const Link again = add_link(pair, {}, by_plane(plane));
    ASSERT_TRUE(again.a.write(2, {pair.ma.sge(0, 1000)}, fresh.addr, fresh.rkey));
    EXPECT_TRUE(completes(pair, again.a, 2, WcStatus::kSuccess, seconds(1))) << "plane " << plane;
  }
  EXPECT_EQ(open_connections(pair.a), 1u);
  EXPECT_EQ(open_connections(pair.b), 1u);
}

// A calls by plane 0 while B calls by plane 1.
class Crossing : public testing::TestWithParam<uint64_t> {};
INSTANTIATE_TEST_SUITE_P(seed, Crossing, testing::Range<uint64_t>(1, 31));

TEST_P(Crossing, of_calls_by_different_addresses_ends_in_one_connection) {
  const uint64_t seed = GetParam();
  PairOptions options = two_planes();
  options.seed = seed;
  options.faults.loss = seed % 3 == 0 ? 0.1 : 0;
  options.faults.jitter = seed % 2 == 0 ? micros(30) : Nanos{0};
  Pair pair(options);
  const Link other = add_link(pair, {}, by_plane(1));
  Pair::fill(pair.bytes_a(0, 200000), seed);
  Pair::fill(pair.bytes_b(300000, 200000), seed + 1);
  ASSERT_TRUE(pair.qb.post_recv(5, {pair.mb.sge(600000, 100)}));
  ASSERT_TRUE(other.a.post_recv(6, {pair.ma.sge(600000, 100)}));
  ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 200000)}, pair.mb.addr, pair.mb.rkey));
  ASSERT_TRUE(pair.qa.send(2, {pair.ma.sge(0, 100)}));
  if (seed % 5 == 0) pair.run_for(micros(static_cast<int64_t>(seed)));
  ASSERT_TRUE(other.b.write(3, {pair.mb.sge(300000, 200000)}, pair.ma.addr + 300000, pair.ma.rkey));
  ASSERT_TRUE(other.b.send(4, {pair.mb.sge(0, 100)}));
  for (const uint64_t wr_id : {1u, 2u})
    EXPECT_TRUE(completes(pair, pair.qa, wr_id, WcStatus::kSuccess, seconds(2)));
  for (const uint64_t wr_id : {3u, 4u})
    EXPECT_TRUE(completes(pair, other.b, wr_id, WcStatus::kSuccess, seconds(2)));
  EXPECT_TRUE(receives(pair, pair.qb, 5));
  EXPECT_TRUE(receives(pair, other.a, 6));
  EXPECT_TRUE(same(pair, 0, 0, 200000));
  EXPECT_TRUE(same(pair, 300000, 300000, 200000));
  // Either way round, by either address, and for good.
  ASSERT_TRUE(pair.qb.write(7, {pair.mb.sge(0, 1000)}, pair.ma.addr, pair.ma.rkey));
  ASSERT_TRUE(other.a.write(8, {pair.ma.sge(0, 1000)}, pair.mb.addr, pair.mb.rkey));
  EXPECT_TRUE(completes(pair, pair.qb, 7));
  EXPECT_TRUE(completes(pair, other.a, 8));
  for (uint32_t plane = 0; plane < 2; ++plane) {
    const Link fresh = add_link(pair, {}, by_plane(plane));
    ASSERT_TRUE(fresh.a.write(9, {pair.ma.sge(0, 1000)}, pair.mb.addr, pair.mb.rkey));
    EXPECT_TRUE(completes(pair, fresh.a, 9));
  }
  pair.run_for(seconds(20));
  for (const Endpoint* each : {&pair.a, &pair.b}) {
    EXPECT_EQ(open_connections(*each), 1u);
    EXPECT_EQ(each->look().connection_stats().size(), 1u) << "nor is there a dead one";
    EXPECT_EQ(each->look().counters().connections_failed, 0u);
  }
}

TEST(CrossingOf, calls_leaves_no_address_behind_when_the_connection_ends) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PairOptions options = two_planes();
    options.seed = seed;
    Pair pair(options);
    const Link other = add_link(pair, {}, by_plane(1));
    ASSERT_TRUE(pair.qa.write(1, {pair.ma.sge(0, 100)}, pair.mb.addr, pair.mb.rkey));
    ASSERT_TRUE(other.b.write(2, {pair.mb.sge(0, 100)}, pair.ma.addr, pair.ma.rkey));
    ASSERT_TRUE(completes(pair, pair.qa, 1));
    ASSERT_TRUE(completes(pair, other.b, 2));
    pair.b.crash();
    pair.run_for(seconds(20));
    ASSERT_TRUE(pair.a.look().quiescent());
    pair.b.restart();
    const Mr fresh = pair.b.make_mr(1000);
    for (const uint32_t plane : {1u, 0u}) {
      const Link again = add_link(pair, {}, by_plane(plane));
      ASSERT_TRUE(again.a.write(3, {pair.ma.sge(0, 1000)}, fresh.addr, fresh.rkey));
      EXPECT_TRUE(completes(pair, again.a, 3, WcStatus::kSuccess, seconds(1))) << "plane " << plane;
    }
  }
}

// An endpoint id is no secret. Who bears A's id at another address gets nothing that is meant for A.
TEST(BorrowedEndpointId, attracts_no_streams) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PairOptions options;
    options.seed = seed;
    Pair pair(options);
    Endpoint& thief = pair.add_endpoint(tweaked(
        [id = pair.a.look().config().endpoint_id](EngineConfig& config) { config.endpoint_id = id; }));
    const Mr mt = thief.make_mr(100);
    const Qp own = thief.make_qp(), for_thief = pair.b.make_qp();
    connect(own, for_thief);
    uint64_t stolen = 0;
    pair.network().on_sent([&](const PacketView& p) {
      const auto control = p.stream_control();
      const bool meant_for_a = control && control->src_qpn == pair.qb.number;
      stolen += p.to == thief.index() && p.is(DataOp::kStreamOpen) && meant_for_a ? 1u : 0u;
    });
    ASSERT_TRUE(own.write(1, {mt.sge()}, pair.mb.addr, pair.mb.rkey));
    ASSERT_TRUE(pair.qb.write(2, {pair.mb.sge(0, 100000)}, pair.ma.addr, pair.ma.rkey));
    EXPECT_TRUE(completes(pair, pair.qb, 2, WcStatus::kSuccess, seconds(2)));
    EXPECT_TRUE(same(pair, 0, 0, 100000));
    EXPECT_EQ(stolen, 0u);
  }
}

}  // namespace
}  // namespace mroce::test
