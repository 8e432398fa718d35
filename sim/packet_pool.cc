#include <sys/mman.h>

#include <cstdlib>
#include <new>

#include "core/base/assert.h"
#include "sim/packet.h"

namespace mroce::sim {
namespace {

// A huge page: packets are touched in no order, and a fabric has more of them than a TLB has small pages.
constexpr size_t kChunkBytes = 2 << 20;

}  // namespace

PacketPool::~PacketPool() {
  while (chunks_ != nullptr) {
    void* const next = *static_cast<void**>(chunks_);
    std::free(chunks_);
    chunks_ = next;
  }
}

Packet* PacketPool::take(SizeClass& size_class, size_t room) {
  ++size_class.taken;
  if (size_class.free != nullptr) {
    Packet* const packet = size_class.free;
    size_class.free = packet->next;
    return packet;
  }
  const size_t bytes = sizeof(Packet) + room;
  if (size_class.left < bytes) {
    void* const chunk = std::aligned_alloc(kChunkBytes, kChunkBytes);
    if (chunk == nullptr) throw std::bad_alloc();
    madvise(chunk, kChunkBytes, MADV_HUGEPAGE);  // a wish; without it all is the same, only slower
    *static_cast<void**>(chunk) = chunks_;
    chunks_ = chunk;
    memory_bytes_ += kChunkBytes;
    size_class.chunk = static_cast<std::byte*>(chunk) + sizeof(Packet);
    size_class.left = kChunkBytes - sizeof(Packet);
  }
  std::byte* const at = size_class.chunk;
  size_class.chunk += bytes;
  size_class.left -= bytes;
  ++size_class.made;
  return reinterpret_cast<Packet*>(at);
}

Packet* PacketPool::allocate(size_t header_bytes) {
  MROCE_ASSERT(header_bytes <= Packet::kLargeHeader);
  const size_t room = header_bytes <= Packet::kInlineHeader   ? Packet::kInlineHeader
                      : header_bytes <= Packet::kMediumHeader ? Packet::kMediumHeader
                                                              : Packet::kLargeHeader;
  Packet* const packet = new (take(class_of(room), room)) Packet;
  packet->header_bytes = static_cast<uint16_t>(header_bytes);
  packet->header_room = static_cast<uint16_t>(room);
  return packet;
}

void PacketPool::release(Packet* packet) {
  SizeClass& size_class = class_of(packet->header_room);
  packet->next = size_class.free;
  size_class.free = packet;
  ++size_class.returned;
}

void PacketPool::move(SizeClass& from, SizeClass& to) {
  constexpr uint64_t kWorthIt = 1 << 14;
  if (from.idle() < to.idle() + kWorthIt) return;
  uint64_t count = (from.idle() - to.idle()) / 2;
  from.taken += count;
  to.returned += count;
  for (; count > 0; --count) {
    Packet* const packet = from.free;
    from.free = packet->next;
    packet->next = to.free;
    to.free = packet;
  }
}

void PacketPool::balance(PacketPool& a, PacketPool& b) {
  move(a.small_, b.small_);
  move(b.small_, a.small_);
  move(a.medium_, b.medium_);
  move(b.medium_, a.medium_);
  move(a.large_, b.large_);
  move(b.large_, a.large_);
}

}  // namespace mroce::sim
