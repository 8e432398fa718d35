#include "net/host_memory.h"

#include <algorithm>
#include <cstring>

#include "core/base/assert.h"

namespace mroce::net {
namespace {

std::byte* pointer(uint64_t addr) {
  return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(addr));
}

template <class Word>
void store_word(std::byte* to, const std::byte* from) {
  Word word;
  std::memcpy(&word, from, sizeof word);
  __atomic_store_n(reinterpret_cast<Word*>(to), word, __ATOMIC_RELEASE);
}

// Stores the at most 8 bytes of a tail: upwards in the widest aligned pieces, so that its last byte is in the
// last store.
void store_last(std::byte* to, const std::byte* from, size_t length) {
  while (length > 0) {
    const auto address = reinterpret_cast<uintptr_t>(to);
    size_t width = 8;
    while (width > length || address % width != 0) width /= 2;
    switch (width) {
      case 8:
        store_word<uint64_t>(to, from);
        break;
      case 4:
        store_word<uint32_t>(to, from);
        break;
      case 2:
        store_word<uint16_t>(to, from);
        break;
      default:
        store_word<uint8_t>(to, from);
        break;
    }
    to += width;
    from += width;
    length -= width;
  }
}

}  // namespace

void HostMemory::place(uint64_t addr, std::span<const std::byte> bytes) {
  if (!bytes.empty()) std::memcpy(pointer(addr), bytes.data(), bytes.size());
}

void HostMemory::place_tail(uint64_t addr, std::span<const std::byte> bytes) {
  constexpr size_t kLast = 8;
  const size_t last = std::min(bytes.size(), kLast);
  place(addr, bytes.first(bytes.size() - last));
  store_last(pointer(addr) + (bytes.size() - last), bytes.data() + (bytes.size() - last), last);
}

const std::byte* HostMemory::fetch(uint64_t addr, uint32_t) {
  return pointer(addr);
}

uint64_t HostMemory::compare_swap(uint64_t addr, uint64_t compare, uint64_t swap) {
  MROCE_ASSERT(addr % 8 == 0);  // the engine refuses others with an error of its own
  __atomic_compare_exchange_n(reinterpret_cast<uint64_t*>(pointer(addr)), &compare, swap, false,
                              __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return compare;  // on failure the value found; on success the same as was compared
}

uint64_t HostMemory::fetch_add(uint64_t addr, uint64_t add) {
  MROCE_ASSERT(addr % 8 == 0);
  return __atomic_fetch_add(reinterpret_cast<uint64_t*>(pointer(addr)), add, __ATOMIC_SEQ_CST);
}

}  // namespace mroce::net
