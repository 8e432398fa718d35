// Mode 0: CRC-32C (RFC 3720 appendix B.4). ISA-L's function takes and returns the bare register, so that
// parts chain; the inversion at both ends is ours (kCrcStart, crc_finish).
#include <isa-l/crc.h>

#include <algorithm>

#include "core/wire/codec.h"

namespace mroce::wire {

uint32_t crc_update(uint32_t state, In bytes) {
  constexpr size_t kMaxPart = size_t{1} << 30;  // ISA-L counts in int
  while (!bytes.empty()) {
    const size_t part = std::min(bytes.size(), kMaxPart);
    // ISA-L reads only, but its parameter is not const.
    auto* start = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data()));
    state = crc32_iscsi(start, static_cast<int>(part), state);
    bytes = bytes.subspan(part);
  }
  return state;
}

void write_trailer(uint32_t crc, std::byte* out) {
  store_be(out, crc);
}

bool check_trailer(In datagram) {
  if (datagram.size() < kTrailerBytes) return false;
  const size_t body = datagram.size() - kTrailerBytes;
  return crc_finish(crc_update(kCrcStart, datagram.first(body))) == load_be<uint32_t>(datagram.data() + body);
}

}  // namespace mroce::wire
