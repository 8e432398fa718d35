// Partition: the nodes that one thread runs, with their events, packets and counters.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/event_queue.h"
#include "sim/fabric.h"
#include "sim/faults.h"
#include "sim/scheduler.h"
#include "sim/trace.h"

namespace mroce::sim {

// X(name, sentence). Sums over all partitions: the same for any number of threads.
#define MROCE_SIM_FABRIC_COUNTERS(X)                                            \
  X(events, "events")                                                           \
  X(hops, "packets that arrived at a node, acknowledgements included")          \
  X(pause_frames, "pause and resume frames that arrived")                       \
  X(lost, "packets lost on links")                                              \
  X(switch_drops, "packets dropped by switches")                                \
  X(receiver_drops, "packets dropped because a host did not take them in time") \
  X(marks, "packets marked by ECN")

struct FabricCounters {
#define MROCE_SIM_COUNTER(name, sentence) uint64_t name = 0;
  MROCE_SIM_FABRIC_COUNTERS(MROCE_SIM_COUNTER)
#undef MROCE_SIM_COUNTER

  FabricCounters& operator+=(const FabricCounters& other) {
#define MROCE_SIM_COUNTER(name, sentence) name += other.name;
    MROCE_SIM_FABRIC_COUNTERS(MROCE_SIM_COUNTER)
#undef MROCE_SIM_COUNTER
    return *this;
  }
};

class Partition final : public FlowObserver {
 public:
  // What it has for another partition.
  struct Credit {
    SimTime at;
    uint32_t link;
    uint32_t what;
  };
  struct Outbox {
    std::vector<uint32_t> links;  // far ends that are handed...
    std::vector<PacketList> packets;
    std::vector<Credit> credits;
    std::vector<Credit> new_credits;  // of this window: not yet for the other's eyes
  };

  Partition(Fabric& fabric, const std::vector<uint32_t>& partition_of, uint32_t own, uint32_t count,
            unsigned slot_bits, std::vector<Flow>& flows, FlowScheduler* scheduler, const FaultPlan& faults);

  PacketPool& pool() { return pool_; }
  EventQueue& queue() { return queue_; }

  // Before it runs; null: nothing is noted.
  void note_in(TraceLog* log) {
    log_ = log;
    incidents_ = log != nullptr && log->incidents_wanted ? &log->incidents : nullptr;
  }
  void start_flow(SimTime at, uint32_t flow);
  // Runs all events before `limit`.
  void run(SimTime limit);

  // Earliest event here, or arrival elsewhere of a packet that is still here.
  SimTime earliest() const;
  // Puts what was sent before `limit` on links that lead elsewhere into the outboxes; then the receivers take
  // it.
  void hand_over(SimTime limit);
  Outbox& outbox(uint32_t to) { return outboxes_[to]; }
  void take(Outbox& box);

  std::vector<FlowNotice>& notices() { return notices_; }
  uint64_t finished() const { return finished_; }
  uint64_t received() const { return received_; }
  SimTime last_event() const { return now_; }
  SimTime last_finish() const { return last_finish_; }
  const FabricCounters& counters() const { return counters_; }
  uint64_t memory_bytes() const;

  void flow_finished(SimTime now, uint32_t flow) override;
  void flow_received(SimTime now, uint32_t flow) override;

 private:
  // partition.cc
  void dispatch(const Event& event);
  void on_arrival(const Event& event);
  bool loses(Link& link, const Packet& packet);
  void lose(uint32_t id, Link& link, Packet* packet);
  void prefetch_events();
  void prefetch_link(const Event& event) const;
  void prefetch_packet(const Event& event) const;
  void prefetch_next_hop(const Event& event);
  void prefetch_sent(const Link& link) const;
  void prefetch_slots() const;
  void notify(SimTime now, uint32_t flow, FlowEvent event, uint32_t host);
  // port.cc: a packet joins a port's queue; modes of a link
  void send(uint32_t id, Packet* packet);
  void send_lazy(uint32_t id, Link& link, Packet* packet);
  void send_explicit(uint32_t id, Link& link, Packet* packet);
  void append(uint32_t id, Link& link, Packet* packet, SimTime start);
  bool classes_conflict(Link& link, const Packet& packet);
  void make_explicit(uint32_t id, Link& link);
  void make_lazy(Link& link);
  void start_next(uint32_t id, Link& link);
  uint32_t choose_class(Link& link);
  void on_sent(uint32_t id);
  void on_credit(uint32_t id, uint32_t what);
  void set_paused(uint32_t id, uint32_t priority, bool paused);
  // switch.cc
  void forward(uint32_t index, Packet* packet);
  uint32_t choose(uint32_t index, const NextLinks& next, const Packet& packet);
  uint32_t least_queued(const NextLinks& next, uint32_t start) const;
  uint32_t depth_of(Link& link, uint32_t priority) const;
  bool marks(Switch& sw, const Packet& packet, uint32_t depth) const;
  void drop(Switch& sw, uint32_t link, Packet* packet, DropReason reason);
  uint32_t link_in(uint32_t index, const Packet& packet) const;
  // pfc.cc: occupancy of a switch
  bool admit(Switch& sw, uint32_t index, Link& link, Packet* packet);
  bool admit_lossless(Switch& sw, uint32_t port, Packet* packet);
  void departed(uint32_t id, const Packet& packet);
  uint64_t pause_threshold(const Switch& sw) const;
  void send_pause(uint32_t id, uint32_t priority, bool pause);
  void return_credit(uint32_t in_link, uint32_t priority, uint32_t bytes);
  // host.cc
  void host_arrival(uint32_t host, uint32_t port, Packet* packet);
  void hold(uint32_t host, uint32_t port, Packet* packet);
  uint64_t receive_xoff() const;
  void on_receive(uint32_t host);
  void deliver(uint32_t host, uint32_t port, Packet* packet);
  void on_start(uint32_t flow);
  void on_timer(uint32_t host);
  void after_call(uint32_t host);
  void set_timer(uint32_t host);
  bool port_full(const Link& link) const;
  void pull(uint32_t host, uint32_t port);
  void on_pull(uint32_t id);
  void pull_again(uint32_t id);
  // faults.cc
  void on_fault(uint32_t index);
  void apply(const Fault& fault, Link& link);
  void apply_at_sender(const Fault& fault, Link& link);
  void change_rate(uint32_t id, Link& link);
  void set_avoided(Link& link, bool avoided);
  LinkTrouble& trouble(uint32_t id, Link& link);
  // partition.cc: for traces
  void note(Incident::Kind kind, uint32_t link, const Packet& packet, DropReason reason = DropReason::count);
  void capture(uint32_t link, const Packet& packet, bool lost);

  uint32_t partition_of(uint32_t node) const { return partition_of_[node]; }

  Fabric& fabric_;
  Link* links_;
  const std::vector<uint32_t>& partition_of_;
  uint32_t own_;
  std::vector<Flow>& flows_;
  FlowScheduler* scheduler_;
  const FaultPlan& faults_;

  EventQueue queue_;
  PacketPool pool_;
  SimTime now_ = 0;
  std::array<uint32_t, 4> next_hops_{};  // guesses: links that packets of the next events will take
  uint32_t next_hop_ = 0;
  FabricCounters counters_;
  std::vector<uint32_t> crossing_;  // links with kListed
  std::vector<Outbox> outboxes_;
  TraceLog* log_ = nullptr;
  std::vector<Incident>* incidents_ = nullptr;  // null: they are not wanted
  std::vector<FlowNotice> notices_;
  FlowStarts starts_;
  uint64_t finished_ = 0;
  uint64_t received_ = 0;
  SimTime last_finish_ = 0;
};

}  // namespace mroce::sim
