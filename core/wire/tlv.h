// Walking a TLV list: type (1 byte), length of the value (1 byte), value.
#pragma once

#include <optional>

#include "core/wire/codec.h"

namespace mroce::wire {

struct TlvView {
  Tlv type = Tlv::kEnd;
  In value;
};

// Takes the first TLV off `rest`. nullopt, and `rest` unchanged, if it is cut off: then the list is
// malformed.
inline std::optional<TlvView> next_tlv(In& rest) {
  if (rest.size() < end_of::tlv) return std::nullopt;
  const size_t length = get<at::tlv::length>(rest.data());
  if (rest.size() - end_of::tlv < length) return std::nullopt;
  const TlvView tlv{static_cast<Tlv>(get<at::tlv::type>(rest.data())), rest.subspan(end_of::tlv, length)};
  rest = rest.subspan(end_of::tlv + length);
  return tlv;
}

// Is `rest` a list of whole TLVs, or empty?
bool is_tlv_list(In rest);

// What may follow the body of a datagram that ends at `end`: nothing, or TLVs if its flag EXT is set.
bool is_good_tail(In datagram, size_t end);

}  // namespace mroce::wire
