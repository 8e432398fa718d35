// Packet: what is on a link or in a queue. Payload is virtual: it has a length and no bytes; headers are
// real.
//
// Two cache lines. The first is the fabric's, the second holds the transport's header. Longer headers (an ACK
// with several path blocks, an INIT) come from larger size classes of the pool, in one piece with the packet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/mroce/burst.h"
#include "sim/time.h"

namespace mroce::sim {

enum class PacketKind : uint8_t {
  kData,
  kAck,
  kNack,
  kCnp,
  kControl,
  kPause
};  // for priorities and statistics

inline constexpr uint32_t kNoFlow = UINT32_MAX;

struct alignas(64) Packet {
  Packet* next = nullptr;  // in the queue or free list that holds it
  SimTime at = 0;          // see Link: end of its transmission, or arrival
  uint32_t source = 0;     // hosts
  uint32_t destination = 0;
  uint32_t bytes = 0;         // that it takes on a link and in a buffer, all headers included
  uint32_t payload = 0;       // virtual bytes behind the header
  uint32_t hash = 0;          // of the 5-tuple; ECMP mixes it with a seed of the switch
  uint32_t flow = kNoFlow;    // for traces; no decision in the fabric depends on it
  uint16_t header_bytes = 0;  // of header(), in use
  uint16_t header_room = 0;   // allocated: one of the three below
  uint16_t ingress = 0;       // of the switch that holds it: port that it came in by
  uint8_t priority = 0;       // 0 to 7
  uint8_t plane = 0;
  uint8_t hops = 0;  // switches passed
  PacketKind kind = PacketKind::kData;
  Ecn ecn = Ecn::kNotEct;
  uint8_t fabric = 0;        // scratch of the fabric
  uint16_t source_port = 0;  // of UDP, for traces
  SimTime next_at = 0;       // `at` of `next` in the FIFO of a link, so that it need not be fetched yet

  static constexpr size_t kInlineHeader = 64;
  static constexpr size_t kMediumHeader = 320;  // an ACK with four path blocks
  static constexpr size_t kLargeHeader = 1472;  // INIT is 1200

  std::byte* header() { return reinterpret_cast<std::byte*>(this + 1); }
  std::span<const std::byte> header() const {
    return {reinterpret_cast<const std::byte*>(this + 1), header_bytes};
  }
};
static_assert(sizeof(Packet) == 64);

// Allocation is a pop, release a push. Memory goes back to the system when the pool ends; a packet may be
// released into another pool than it came from (it crossed to another thread), so pools of one run end
// together.
class PacketPool {
 public:
  PacketPool() = default;
  ~PacketPool();
  PacketPool(const PacketPool&) = delete;
  PacketPool& operator=(const PacketPool&) = delete;

  // A packet with all fields at their defaults and room for `header_bytes`, which is set.
  Packet* allocate(size_t header_bytes);
  void release(Packet* packet);
  // May wrap where packets cross; sums over the pools of a run are right.
  uint64_t in_use() const {
    return small_.taken - small_.returned + medium_.taken - medium_.returned + large_.taken - large_.returned;
  }
  uint64_t memory_bytes() const { return memory_bytes_; }

  // Evens out what the pools of a run have free, if the difference is large: traffic in one direction would
  // otherwise fill one pool with what the other must allocate. No other thread may use them meanwhile.
  static void balance(PacketPool& a, PacketPool& b);

 private:
  struct SizeClass {
    uint64_t idle() const { return made - taken + returned; }

    uint64_t made = 0;  // packets, from chunks
    uint64_t taken = 0;
    uint64_t returned = 0;
    Packet* free = nullptr;
    std::byte* chunk = nullptr;
    size_t left = 0;
  };
  Packet* take(SizeClass& size_class, size_t room);
  static void move(SizeClass& from, SizeClass& to);

  SizeClass& class_of(size_t room) {
    return room == Packet::kInlineHeader ? small_ : room == Packet::kMediumHeader ? medium_ : large_;
  }

  SizeClass small_;
  SizeClass medium_;
  SizeClass large_;
  void* chunks_ = nullptr;  // list through the first word of each
  uint64_t memory_bytes_ = 0;
};

}  // namespace mroce::sim
