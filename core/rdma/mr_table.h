// The memory regions of an endpoint and their keys.
//
// A key is 20 bits of slot and 12 bits of tag, so that looking one up is one array access and one comparison.
// The tag is drawn anew whenever a slot is given out and is never 0 nor the slot's previous one: a key that
// was just deregistered does not name the slot's next owner, and a peer cannot count keys up. lkey and rkey
// are the same number. Slots are reused oldest first and only when kMinFree of them are free, which keeps a
// stale key invalid for long. Twelve bits are no secret that resists a search; bounds, rights and the
// protection domain are checked on every access.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "core/base/ring.h"
#include "core/base/rng.h"
#include "core/rdma/handles.h"
#include "core/rdma/types.h"

namespace mroce {

struct MemoryRegion {
  PdHandle pd;
  uint64_t addr = 0;    // host address of the first byte
  uint64_t length = 0;  // bytes
  uint64_t iova = 0;    // how peers and SGEs name the first byte
  uint32_t access = 0;  // namespace access
  uint32_t key = 0;     // set by the table
};

class MrTable {
 public:
  static constexpr uint32_t kMaxRegions = 1u << 20;

  // Holds up to min(max, kMaxRegions) regions.
  MrTable(uint64_t seed, uint32_t max) : rng_(seed), max_(max < kMaxRegions ? max : kMaxRegions) {}

  // kInvalidArgument: no PD, more than 2^63 bytes, a range that wraps around, unknown access bits, remote
  // write or atomic without local write (IBTA chapter 10.6). kNoMemory: the table is full.
  Result<uint32_t> add(const MemoryRegion& region);
  Status remove(uint32_t key);
  // Changes what `key` stands for; checked like add().
  Status replace(uint32_t key, const MemoryRegion& region);

  // nullptr if there is none. The pointer holds until the next add() or remove().
  const MemoryRegion* find(uint32_t key) const {
    const uint32_t slot = key >> kTagBits;
    if (key == 0 || slot >= slots_.size() || slots_[slot].key != key) return nullptr;
    return &slots_[slot];
  }

  // Host address of [iova, iova + length) if the key is known, belongs to `pd`, covers the range and grants
  // all of `needed_access`. A zero-length access needs no key (IBTA chapter 9.7) and gets 0.
  std::optional<uint64_t> translate(uint32_t key, PdHandle pd, uint64_t iova, uint64_t length,
                                    uint32_t needed_access) const {
    if (length == 0) return 0;
    const MemoryRegion* region = find(key);
    if (region == nullptr || region->pd != pd || (region->access & needed_access) != needed_access) {
      return std::nullopt;
    }
    if (iova < region->iova) return std::nullopt;
    const uint64_t offset = iova - region->iova;
    if (offset > region->length || length > region->length - offset) return std::nullopt;
    return region->addr + offset;
  }

  uint32_t count_of(PdHandle pd) const;  // walks the table: for dealloc_pd
  uint32_t size() const { return count_; }

 private:
  static constexpr uint32_t kTagBits = 12;
  static constexpr uint64_t kMinFree = 64;

  uint32_t draw_key(uint32_t slot);

  Rng rng_;
  uint32_t max_;
  uint32_t count_ = 0;
  std::vector<MemoryRegion> slots_;  // key 0: free
  std::vector<uint16_t> last_tag_;   // by slot
  Ring<uint32_t> free_;              // oldest first
};

}  // namespace mroce
