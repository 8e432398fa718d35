#include "core/rdma/mr_table.h"

#include <algorithm>

namespace mroce {
namespace {

constexpr uint64_t kMaxRegionBytes = uint64_t{1} << 63;

bool wraps(uint64_t start, uint64_t length) {
  return length != 0 && start + (length - 1) < start;
}

bool is_valid(const MemoryRegion& region) {
  if (!region.pd || region.length > kMaxRegionBytes) return false;
  if (wraps(region.addr, region.length) || wraps(region.iova, region.length)) return false;
  if ((region.access & ~access::kAll) != 0) return false;
  const bool remote_changes = (region.access & (access::kRemoteWrite | access::kRemoteAtomic)) != 0;
  return !remote_changes || (region.access & access::kLocalWrite) != 0;
}

}  // namespace

uint32_t MrTable::draw_key(uint32_t slot) {
  constexpr uint64_t kTags = (1u << kTagBits) - 1;  // 1 … 4095
  uint16_t& last = last_tag_[slot];
  auto tag = static_cast<uint16_t>(1 + rng_.below(kTags));
  if (tag == last) tag = static_cast<uint16_t>(tag == kTags ? 1 : tag + 1);
  last = tag;
  return (slot << kTagBits) | tag;
}

Result<uint32_t> MrTable::add(const MemoryRegion& region) {
  if (!is_valid(region)) return fail(Errc::kInvalidArgument);
  if (count_ >= max_) return fail(Errc::kNoMemory);
  uint32_t slot;
  if (slots_.size() < max_ && free_.size() < kMinFree) {
    slot = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
    last_tag_.push_back(0);
  } else {
    slot = free_.front();
    free_.pop();
  }
  slots_[slot] = region;
  slots_[slot].key = draw_key(slot);
  ++count_;
  return slots_[slot].key;
}

Status MrTable::remove(uint32_t key) {
  if (find(key) == nullptr) return fail(Errc::kNotFound);
  const uint32_t slot = key >> kTagBits;
  slots_[slot] = MemoryRegion{};
  free_.push(slot);
  --count_;
  return {};
}

Status MrTable::replace(uint32_t key, const MemoryRegion& region) {
  if (find(key) == nullptr) return fail(Errc::kNotFound);
  if (!is_valid(region)) return fail(Errc::kInvalidArgument);
  MemoryRegion& slot = slots_[key >> kTagBits];
  slot = region;
  slot.key = key;
  return {};
}

uint32_t MrTable::count_of(PdHandle pd) const {
  return static_cast<uint32_t>(std::count_if(slots_.begin(), slots_.end(), [pd](const MemoryRegion& slot) {
    return slot.key != 0 && slot.pd == pd;
  }));
}

}  // namespace mroce
