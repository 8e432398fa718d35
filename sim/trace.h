// What a run can say about itself beside its results: packets of chosen links, incidents (pauses, marks,
// drops), and the state of links at regular times.
//
// None of it changes the run. Partitions note packets and incidents in logs of their own; between the windows
// of the run, when no partition moves, the logs are merged in an order that does not depend on the number of
// threads, and handed to the sink. Samples are taken then too: windows are cut so that one ends at each
// sampling time. So nothing of this costs anything when it is off, but a test where a packet is dropped,
// marked or paused; links whose packets are wanted have a flag beside the one for trouble.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/fabric.h"

namespace mroce::sim {

// A packet at the far end of a link, when its last byte arrives. ECN and hops are those of the wire.
struct TracedPacket {
  Packet packet;  // its fields; not its header, and not where it was queued
  SimTime at = 0;
  uint32_t link = 0;
  bool lost = false;  // on this link: it does not arrive
};

struct Incident {
  enum class Kind : uint8_t {
    kPause,   // the class of the link is paused now...
    kResume,  // ... and not any more
    kMark,    // the packet was marked where it joined the queue of the link
    kDrop,    // by a switch, `reason`: on its way into the link, or out of it (headroom, no_route)
    kLost,    // on the link
    kRefused  // by the host at the end of the link, whose receive buffer is full
  };
  SimTime at = 0;
  uint32_t link = 0;
  Kind kind = Kind::kPause;
  DropReason reason = DropReason::count;
  uint8_t priority = 0;
  // Of the packet.
  uint32_t source = 0;
  uint32_t destination = 0;
  uint32_t bytes = 0;
  uint32_t flow = kNoFlow;
};

struct LinkSample {
  uint64_t arrived_bytes = 0;  // at the far end since the run began; lost ones too, pause frames not
  SimTime paused_time = 0;     // since the run began, sum over classes
  uint32_t queue_bytes = 0;    // with the packet that is being sent
};

// Called on one thread at a time; packets, incidents and samples each in the order of time.
class TraceSink {
 public:
  virtual ~TraceSink() = default;
  virtual void on_packet(const TracedPacket& packet, std::span<const std::byte> header) {
    (void)packet, (void)header;
  }
  virtual void on_incident(const Incident& incident) { (void)incident; }
  // Links in the order of TraceOptions::sampled, before what happens at `at`. Returns the time of the next
  // sample.
  virtual SimTime on_sample(SimTime at, std::span<const LinkSample> links) {
    (void)at, (void)links;
    return kEndOfTime;
  }
  // The last event was at `at`. `peaks`: the longest queue in bytes of each link that was sampled.
  virtual void on_end(SimTime at, std::span<const uint64_t> peaks) { (void)at, (void)peaks; }
};

struct TraceOptions {
  TraceSink* sink = nullptr;       // null: nothing is traced
  std::vector<uint32_t> captured;  // links whose packets are wanted
  std::vector<uint32_t> sampled;   // links; from time zero
  bool incidents = false;
};

// Of one partition, since the logs were merged last.
struct TraceLog {
  struct Entry {
    TracedPacket packet;
    size_t header = 0;  // position in `bytes`
  };
  bool incidents_wanted = false;
  std::vector<Entry> packets;
  std::vector<std::byte> bytes;
  std::vector<Incident> incidents;
};

}  // namespace mroce::sim
