// HostMemory: the engine's Memory on this process's own address space.
//
// A placed tail is visible last (memory.h): its body is copied, then the last 1 to 8 bytes follow as release
// stores, one aligned 8-byte store where their address allows it. A release store is as good as a fence
// before it here, and a thread sanitizer understands it. Somebody who polls the last byte with an acquire
// load, or on x86 with a plain one, then sees all that came before.
#pragma once

#include "core/mroce/memory.h"

namespace mroce::net {

class HostMemory final : public Memory {
 public:
  void place(uint64_t addr, std::span<const std::byte> bytes) override;
  void place_tail(uint64_t addr, std::span<const std::byte> bytes) override;
  const std::byte* fetch(uint64_t addr, uint32_t length) override;
  uint64_t compare_swap(uint64_t addr, uint64_t compare, uint64_t swap) override;
  uint64_t fetch_add(uint64_t addr, uint64_t add) override;
};

}  // namespace mroce::net
