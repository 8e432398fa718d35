#include "core/wire/tlv.h"

namespace mroce::wire {

bool is_tlv_list(In rest) {
  while (!rest.empty()) {
    if (!next_tlv(rest)) return false;
  }
  return true;
}

bool is_good_tail(In datagram, size_t end) {
  if (datagram.size() < end) return false;
  if (datagram.size() == end) return true;
  if ((get<at::common::flags>(datagram.data()) & flag::kExtension) == 0) return false;
  return is_tlv_list(datagram.subspan(end));
}

size_t data_tlv_bytes(In in) {
  In rest = in;
  for (;;) {
    const auto tlv = next_tlv(rest);
    if (!tlv) return 0;
    if (tlv->type != Tlv::kEnd) continue;
    return tlv->value.empty() ? in.size() - rest.size() : 0;
  }
}

}  // namespace mroce::wire
