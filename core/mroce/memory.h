// How the engine reaches application memory. The engine has checked keys and bounds before it calls.
//
// The endpoint copies (HostMemory in net/); the simulator counts. `addr` is a host virtual address after
// translation through the memory region (address = iova - region.iova + region.addr).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace mroce {

class Memory {
 public:
  virtual ~Memory() = default;
  // Stores `bytes` at `addr`, in any order.
  virtual void place(uint64_t addr, std::span<const std::byte> bytes) = 0;
  // Stores `bytes` at `addr` such that somebody who polls the last 8 bytes sees them only after all the rest,
  // and after everything placed before: body, release fence, last (up to) 8 bytes.
  virtual void place_tail(uint64_t addr, std::span<const std::byte> bytes) = 0;
  // The bytes to send, readable until the burst that names them has been handed to the network.
  virtual const std::byte* fetch(uint64_t addr, uint32_t length) = 0;
  // Atomic on an aligned 8-byte word, in host byte order; returns the value before.
  virtual uint64_t compare_swap(uint64_t addr, uint64_t compare, uint64_t swap) = 0;
  virtual uint64_t fetch_add(uint64_t addr, uint64_t add) = 0;
};

}  // namespace mroce
