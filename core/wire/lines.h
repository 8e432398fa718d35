// Packets in one line, for stories of runs and for the packets of a failed assertion. Each piece begins with
// a space, but for that of the header, so that they can be put one behind the other.
#pragma once

#include <string>

#include "core/wire/packet.h"

namespace mroce::wire {

std::string line_of(const Common& header);  // "DATA p2 e1 dcid 0x51 pseq 7"
// `control` is null unless the packet holds a stream control message; `payload` counts bytes.
std::string line_of(const Data& data, const StreamControl* control, size_t payload);
std::string line_of(const Ack& ack);
std::string line_of(const Init& init);
std::string line_of_flags(const Common& header);  // those that any packet may have: RTX, AR

}  // namespace mroce::wire
