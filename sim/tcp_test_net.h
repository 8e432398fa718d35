// A star, for tests: hosts with a NIC each around a switch that has a queue to each host. Links and queues
// have rates and delays; a hook may lose, hold back or double each packet.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "core/base/assert.h"
#include "sim/tcp_transport.h"

namespace mroce::sim {

struct TestNetOptions {
  uint64_t nic_bps = 100'000'000'000;
  uint64_t port_bps = 100'000'000'000;  // of the switch, to each host
  SimTime delay = microseconds(5);      // of each of the two links
  uint64_t queue_bytes = UINT64_MAX;
  uint64_t mark_bytes = UINT64_MAX;  // mark what finds more than that
  uint32_t mtu = 1448;
};

class TestNet final : public FlowObserver {
 public:
  struct Fate {
    bool lost = false;
    bool twice = false;
    SimTime late = 0;
  };

  TestNet(uint32_t hosts, const TestNetOptions& options, const TcpOptions& tcp, std::vector<Flow> table)
      : flows(std::move(table)),
        options_(options),
        busy_(hosts),
        port_busy_(hosts),
        timer_(hosts, kEndOfTime) {
    for (uint32_t host = 0; host < hosts; ++host) {
      const HostContext context{.host = host,
                                .ports = 1,
                                .rate_bps = options.nic_bps,
                                .payload_mtu = options.mtu,
                                .wire = {},
                                .base_rtt = base_rtt(),
                                .seed = host + 1,
                                .pool = pool_,
                                .flows = *this};
      transports_.push_back(std::make_unique<TcpTransport>(context, tcp));
    }
    for (uint32_t i = 0; i < flows.size(); ++i) push({flows[i].start, 0, Kind::kStart, i, nullptr});
  }
  ~TestNet() override {
    for (; !events_.empty(); events_.pop()) {
      if (events_.top().packet != nullptr) pool_.release(events_.top().packet);
    }
  }

  uint32_t full_packet() const { return options_.mtu + 32 + 66; }
  SimTime base_rtt() const {
    return 4 * options_.delay + serialisation(full_packet(), options_.nic_bps) +
           serialisation(full_packet(), options_.port_bps) + serialisation(98, options_.nic_bps) +
           serialisation(98, options_.port_bps);
  }

  // Until all flows are finished, or `until`.
  void run(SimTime until) {
    while (!events_.empty() && left() > 0 && events_.top().at <= until) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.at;
      ++events;
      happen(event);
    }
  }

  size_t left() const { return flows.size() - finished_; }
  void flow_finished(SimTime now, uint32_t flow) override {
    MROCE_ASSERT(flows[flow].finished == kEndOfTime);
    flows[flow].finished = now;
    ++finished_;
  }
  void flow_received(SimTime now, uint32_t flow) override {
    MROCE_ASSERT(flows[flow].received == kEndOfTime);
    flows[flow].received = now;
  }
  TcpTransport& transport(uint32_t host) { return *transports_[host]; }
  TransportCounters counters() const {
    TransportCounters sum;
    for (const auto& transport : transports_) sum += transport->counters();
    return sum;
  }
  SimTime now() const { return now_; }

  std::vector<Flow> flows;
  std::function<Fate(Packet&)> hook;
  std::function<void(SimTime, uint64_t)> on_depth;  // of a queue that a packet with payload finds
  uint64_t dropped = 0;
  uint64_t marked = 0;
  uint64_t events = 0;

 private:
  enum class Kind : uint8_t { kStart, kSwitch, kArrive, kPull, kTimer };
  struct Event {
    SimTime at;
    uint64_t order;
    Kind kind;
    uint32_t what;  // host or flow
    Packet* packet;
    bool operator<(const Event& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  void push(Event event) {
    event.order = ++order_;
    events_.push(event);
  }

  void happen(const Event& event) {
    switch (event.kind) {
      case Kind::kStart:
        flows[event.what].started = now_;
        transports_[flows[event.what].source]->start(now_, event.what, flows[event.what]);
        return after_call(flows[event.what].source);
      case Kind::kSwitch:
        return at_switch(event.packet);
      case Kind::kArrive:
        transports_[event.what]->receive(now_, 0, *event.packet);
        pool_.release(event.packet);
        return after_call(event.what);
      case Kind::kPull:
        return after_call(event.what);
      case Kind::kTimer:
        if (timer_[event.what] != now_) return;
        timer_[event.what] = kEndOfTime;
        transports_[event.what]->on_timer(now_);
        return after_call(event.what);
    }
  }

  void after_call(uint32_t host) {
    while (busy_[host] <= now_) {
      Packet* const packet = transports_[host]->pull(now_, 0);
      if (packet == nullptr) break;
      busy_[host] = now_ + serialisation(packet->bytes, options_.nic_bps);
      push({busy_[host], 0, Kind::kPull, host, nullptr});
      leave(packet, busy_[host] + options_.delay);
    }
    const SimTime deadline = std::max(transports_[host]->deadline(), now_ + 1);
    if (deadline < timer_[host]) {
      timer_[host] = deadline;
      push({deadline, 0, Kind::kTimer, host, nullptr});
    }
  }

  void leave(Packet* packet, SimTime at) {
    const Fate fate = hook ? hook(*packet) : Fate{};
    if (fate.twice) {
      Packet* const copy = pool_.allocate(packet->header_bytes);
      *copy = *packet;
      std::copy_n(packet->header(), packet->header_bytes, copy->header());
      push({at, 0, Kind::kSwitch, 0, copy});
    }
    if (fate.lost) return pool_.release(packet);
    push({at + fate.late, 0, Kind::kSwitch, 0, packet});
  }

  void at_switch(Packet* packet) {
    SimTime& busy = port_busy_[packet->destination];
    busy = std::max(busy, now_);
    const auto depth = static_cast<uint64_t>(static_cast<double>(busy - now_) * 1e-12 / 8 *
                                             static_cast<double>(options_.port_bps));
    if (on_depth && packet->payload != 0) on_depth(now_, depth);
    if (depth + packet->bytes > options_.queue_bytes) {
      ++dropped;
      return pool_.release(packet);
    }
    if (depth > options_.mark_bytes && packet->ecn != Ecn::kNotEct) {
      packet->ecn = Ecn::kCe;
      ++marked;
    }
    busy += serialisation(packet->bytes, options_.port_bps);
    push({busy + options_.delay, 0, Kind::kArrive, packet->destination, packet});
  }

  TestNetOptions options_;
  PacketPool pool_;
  std::vector<std::unique_ptr<TcpTransport>> transports_;
  std::priority_queue<Event> events_;
  std::vector<SimTime> busy_, port_busy_, timer_;
  size_t finished_ = 0;
  uint64_t order_ = 0;
  SimTime now_ = 0;
};

}  // namespace mroce::sim
