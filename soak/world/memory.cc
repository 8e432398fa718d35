#include "soak/world/memory.h"

#include <cstring>
#include <iterator>

#include "core/base/assert.h"

namespace mroce::soak {

uint64_t WorldMemory::allocate(size_t bytes, uint64_t align) {
  const uint64_t addr = (next_ + align - 1) / align * align;
  blocks_[addr].assign(bytes, std::byte{0});
  next_ = addr + bytes + 4096;  // a gap, so that an overrun never lands in a neighbour
  return addr;
}

void WorldMemory::free(uint64_t addr) {
  const size_t erased = blocks_.erase(addr);
  MROCE_ASSERT(erased == 1);
}

std::span<const std::byte> WorldMemory::bytes(uint64_t addr, size_t length) const {
  const auto after = blocks_.upper_bound(addr);
  MROCE_ASSERT(after != blocks_.begin());
  const auto& [start, block] = *std::prev(after);
  MROCE_ASSERT(addr - start <= block.size() && length <= block.size() - (addr - start));
  return {block.data() + (addr - start), length};
}

std::span<std::byte> WorldMemory::bytes(uint64_t addr, size_t length) {
  const auto view = static_cast<const WorldMemory*>(this)->bytes(addr, length);
  return {const_cast<std::byte*>(view.data()), view.size()};
}

uint64_t WorldMemory::word(uint64_t addr) const {
  uint64_t value = 0;
  std::memcpy(&value, bytes(addr, 8).data(), 8);
  return value;
}

void WorldMemory::set_word(uint64_t addr, uint64_t value) {
  std::memcpy(bytes(addr, 8).data(), &value, 8);
}

void WorldMemory::store(uint64_t addr, std::span<const std::byte> data, bool tail) {
  const Placement placement{addr, static_cast<uint32_t>(data.size()), tail};
  if (intercept && intercept(placement, data)) return;
  if (on_place) on_place(placement, data);
  if (record_placements) placements.push_back(placement);
  placed_bytes += data.size();
  if (!data.empty()) std::memcpy(bytes(addr, data.size()).data(), data.data(), data.size());
}

const std::byte* WorldMemory::fetch(uint64_t addr, uint32_t length) {
  if (on_fetch) on_fetch(addr, length);
  return bytes(addr, length).data();
}

uint64_t WorldMemory::compare_swap(uint64_t addr, uint64_t compare, uint64_t swap) {
  const uint64_t original = word(addr);
  if (original == compare) set_word(addr, swap);
  ++atomics;
  if (on_atomic) on_atomic({addr, true, swap, compare, original});
  return original;
}

uint64_t WorldMemory::fetch_add(uint64_t addr, uint64_t add) {
  const uint64_t original = word(addr);
  set_word(addr, original + add);
  ++atomics;
  if (on_atomic) on_atomic({addr, false, add, 0, original});
  return original;
}

}  // namespace mroce::soak
