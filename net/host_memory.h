// HostMemory: the engine's Memory on this process's own address space.
//
// A placed tail is visible last (memory.h): its body is copied, a release fence follows, and then the last 1
// to 8 bytes are stored, in one aligned store where their address allows it. Somebody who polls the last byte
// with an acquire load, or on x86 with a plain one, then sees all that came before.
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
