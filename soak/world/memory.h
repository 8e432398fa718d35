// WorldMemory: the memory of one endpoint. Addresses are made up and the same in every run, so that packets
// are the same too; behind each block stands an allocation of its own, so that a sanitizer sees every access
// outside it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/mroce/memory.h"

namespace mroce::soak {

struct Placement {
  uint64_t addr = 0;
  uint32_t length = 0;
  bool tail = false;
};

struct AtomicExecution {
  uint64_t addr = 0;
  bool is_swap = false;
  uint64_t operand = 0;  // to add, or to store
  uint64_t compare = 0;
  uint64_t original = 0;
};

class WorldMemory : public Memory {
 public:
  uint64_t allocate(size_t bytes, uint64_t align = 64);
  void free(uint64_t addr);
  // [addr, addr + length) must lie within one block.
  std::span<std::byte> bytes(uint64_t addr, size_t length);
  std::span<const std::byte> bytes(uint64_t addr, size_t length) const;
  uint64_t word(uint64_t addr) const;
  void set_word(uint64_t addr, uint64_t value);

  void place(uint64_t addr, std::span<const std::byte> data) override { store(addr, data, false); }
  void place_tail(uint64_t addr, std::span<const std::byte> data) override { store(addr, data, true); }
  const std::byte* fetch(uint64_t addr, uint32_t length) override;
  uint64_t compare_swap(uint64_t addr, uint64_t compare, uint64_t swap) override;
  uint64_t fetch_add(uint64_t addr, uint64_t add) override;

  // True: swallows this placement, as if it had not happened (to plant bugs).
  std::function<bool(const Placement&, std::span<const std::byte>)> intercept;
  // Before a placement and a fetch happen; after an atomic has happened.
  std::function<void(const Placement&, std::span<const std::byte>)> on_place;
  std::function<void(uint64_t addr, uint32_t length)> on_fetch;
  std::function<void(const AtomicExecution&)> on_atomic;
  bool record_placements = false;
  std::vector<Placement> placements;
  uint64_t placed_bytes = 0;
  uint64_t atomics = 0;

 private:
  void store(uint64_t addr, std::span<const std::byte> data, bool tail);

  std::map<uint64_t, std::vector<std::byte>> blocks_;
  uint64_t next_ = 0x10000000;
};

}  // namespace mroce::soak
