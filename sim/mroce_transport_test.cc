#include "sim/mroce_transport.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "core/base/rng.h"
#include "sim/mroce_setup.h"

namespace mroce::sim {
namespace {

constexpr SimTime kDelay = microseconds(2);
constexpr uint64_t kRate = 400'000'000'000;

// Hosts whose ports are joined by links of one delay and rate, with one packet in the hands of each port.
class IdealFabric : public FlowObserver {
 public:
  IdealFabric(uint32_t hosts, uint32_t planes, const MroceOptions& options, std::vector<Flow> flows)
      : planes_(planes), flows_(std::move(flows)) {
    std::vector<MroceTransport*> raw;
    for (uint32_t host = 0; host < hosts; ++host) {
      HostContext context{.host = host,
                          .ports = planes,
                          .rate_bps = kRate,
                          .payload_mtu = 4096,
                          .wire = {},
                          .base_rtt = 2 * kDelay,
                          .seed = host + 1,
                          .pool = pool_,
                          .flows = *this};
      transports_.push_back(std::make_unique<MroceTransport>(context, options));
      raw.push_back(transports_.back().get());
    }
    busy_.resize(size_t{hosts} * planes);
    error_ = open_connections(raw, flows_, 2 * kDelay);
  }

  ~IdealFabric() override {
    for (auto& [at, packet] : flying_) pool_.release(packet);
  }

  void run(SimTime until, double loss = 0) {
    Rng rng(7);
    for (uint32_t i = 0; i < flows_.size(); ++i) transports_[flows_[i].source]->start(now_, i, flows_[i]);
    while (now_ < until && left() > 0) {
      for (uint32_t host = 0; host < transports_.size(); ++host) pull(host, rng, loss);
      SimTime next = flying_.empty() ? kEndOfTime : flying_.begin()->first;
      for (const auto& transport : transports_)
        next = std::min(next, std::max(transport->deadline(), now_ + 1));
      for (const SimTime busy : busy_) {
        if (busy > now_) next = std::min(next, busy);
      }
      if (next == kEndOfTime) return;
      now_ = next;
      while (!flying_.empty() && flying_.begin()->first <= now_) {
        Packet* const packet = flying_.begin()->second;
        flying_.erase(flying_.begin());
        transports_[packet->destination]->receive(now_, packet->plane, *packet);
        pool_.release(packet);
      }
      for (const auto& transport : transports_) {
        if (transport->deadline() <= now_) transport->on_timer(now_);
      }
    }
  }

  void flow_finished(SimTime now, uint32_t flow) override { flows_[flow].finished = now; }
  void flow_received(SimTime now, uint32_t flow) override { flows_[flow].received = now; }
  size_t left() const {
    size_t count = 0;
    for (const Flow& flow : flows_) count += flow.finished == kEndOfTime ? 1u : 0u;
    return count;
  }
  const std::vector<Flow>& flows() const { return flows_; }
  const std::string& error() const { return error_; }
  TransportCounters counters() const {
    TransportCounters sum;
    for (const auto& transport : transports_) sum += transport->counters();
    return sum;
  }
  uint64_t memory_bytes(uint32_t host) const { return transports_[host]->memory_bytes(); }

 private:
  void pull(uint32_t host, Rng& rng, double loss) {
    for (uint32_t port = 0; port < planes_; ++port) {
      SimTime& busy = busy_[size_t{host} * planes_ + port];
      while (busy <= now_) {
        Packet* const packet = transports_[host]->pull(now_, port);
        if (packet == nullptr) break;
        busy = now_ + serialisation(packet->bytes, kRate);
        if (rng.chance(loss)) {
          pool_.release(packet);
        } else {
          flying_.emplace(busy + kDelay, packet);
        }
      }
    }
  }

  PacketPool pool_;
  uint32_t planes_;
  std::vector<Flow> flows_;
  std::vector<std::unique_ptr<MroceTransport>> transports_;
  std::vector<SimTime> busy_;
  std::multimap<SimTime, Packet*> flying_;
  SimTime now_ = 0;
  std::string error_;
};

Flow flow(uint32_t source, uint32_t destination, uint64_t bytes) {
  Flow out;
  out.source = source;
  out.destination = destination;
  out.bytes = bytes;
  return out;
}

TEST(MroceTransport, moves_a_flow_at_the_rate_of_the_link_from_the_first_packet_on) {
  constexpr uint64_t kBytes = 4 << 20;
  IdealFabric fabric(2, 1, {}, {flow(0, 1, kBytes)});
  ASSERT_EQ(fabric.error(), "");
  fabric.run(microseconds(10000));
  ASSERT_EQ(fabric.left(), 0u);
  const uint32_t packets = kBytes / 4096;
  const SimTime ideal = packets * serialisation(4096 + 52 + 66, kRate) + 2 * kDelay;
  EXPECT_GE(fabric.flows()[0].finished, ideal);
  EXPECT_LT(fabric.flows()[0].finished, ideal + microseconds(2));
  EXPECT_LT(fabric.flows()[0].received, fabric.flows()[0].finished);
  EXPECT_EQ(fabric.counters().payload_bytes, kBytes);
  EXPECT_EQ(fabric.counters().retransmissions, 0u);
}

TEST(MroceTransport, fills_all_planes) {
  constexpr uint64_t kBytes = 16 << 20;
  IdealFabric fabric(2, 4, {}, {flow(0, 1, kBytes)});
  fabric.run(microseconds(10000));
  ASSERT_EQ(fabric.left(), 0u);
  const SimTime ideal = kBytes / 4096 / 4 * serialisation(4096 + 52 + 66, kRate) + 2 * kDelay;
  EXPECT_LT(fabric.flows()[0].finished, ideal * 105 / 100);
}

TEST(MroceTransport, delivers_every_byte_once_under_loss) {
  std::vector<Flow> flows;
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < 24; ++i) {
    flows.push_back(flow(i % 4, (i + 1 + i / 4 % 3) % 4, 1 + i * 77'777));
    bytes += flows.back().bytes;
  }
  IdealFabric fabric(4, 2, {}, flows);
  fabric.run(microseconds(100000), 0.05);
  ASSERT_EQ(fabric.left(), 0u);
  EXPECT_EQ(fabric.counters().payload_bytes, bytes);
  EXPECT_GT(fabric.counters().retransmissions, 0u);
  for (const Flow& each : fabric.flows()) EXPECT_LE(each.received, each.finished);
}

TEST(MroceTransport, a_flow_longer_than_a_message_is_several) {
  IdealFabric fabric(2, 1, {}, {flow(0, 1, (5ULL << 30) + 5)});
  fabric.run(microseconds(1'000'000));
  ASSERT_EQ(fabric.left(), 0u);
  EXPECT_EQ(fabric.counters().payload_bytes, (5ULL << 30) + 5);
}

TEST(MroceTransport, a_flow_whose_packets_all_get_lost_is_given_up_and_counted) {
  IdealFabric fabric(2, 1, {}, {flow(0, 1, 1 << 20), flow(0, 1, 100)});
  fabric.run(microseconds(60'000'000), 1.0);
  EXPECT_EQ(fabric.left(), 2u);
  EXPECT_EQ(fabric.counters().failed_flows, 2u);
  EXPECT_EQ(fabric.counters().payload_bytes, 0u);
}

TEST(MroceOptions, are_set_by_name_and_refuse_what_they_do_not_know) {
  MroceOptions options;
  std::string error;
  EXPECT_TRUE(options.set("paths", "8", error));
  EXPECT_EQ(options.paths, 8u);
  EXPECT_FALSE(options.set("paths", "0", error));
  EXPECT_EQ(error, "'0' is not a value of paths");
  EXPECT_FALSE(options.set("path", "1", error));
  EXPECT_NE(error.find("unknown key 'path'; mroce has: paths"), std::string::npos);
}

}  // namespace
}  // namespace mroce::sim
