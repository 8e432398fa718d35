// Walks a scatter/gather list: the pieces of its entries that hold `length` bytes from `offset` on, as if the
// entries were one buffer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/rdma/types.h"

namespace mroce {

// Calls `piece(address, length, lkey)` for each in order and stops when it answers false. True if all of
// `length` was covered.
template <class Piece>
bool for_each_piece(std::span<const Sge> sges, uint64_t offset, uint64_t length, Piece&& piece) {
  for (const Sge& sge : sges) {
    if (length == 0) break;
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const auto part = static_cast<uint32_t>(std::min<uint64_t>(length, sge.length - offset));
    if (!piece(sge.addr + offset, part, sge.lkey)) return false;
    length -= part;
    offset = 0;
  }
  return length == 0;
}

}  // namespace mroce
