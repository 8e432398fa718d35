// What the assertions on mode 2 share.
#pragma once

#include "comply/section.h"

namespace mroce::comply {

inline Bytes psk() {
  return pattern(32, 4711);
}

// A target that requires mode 2, and a connection of the tester's that offers it.
inline BenchOptions secured(bool open = true) {
  BenchOptions out;
  out.start.mode = 2;
  out.start.psk = psk();
  out.shape = [](Connection& c) { c.use_mode2(psk()); };
  out.open_connection = open;
  return out;
}

inline Match anything() {
  return [](const Packet&) { return true; };
}

inline void send_raw(Tester& t, Bytes datagram) {
  t.send(std::move(datagram));
}

inline constexpr std::string_view kDropTagRule =
    "A datagram that no key opens, or of whose DATA header there is no telling where it ends, MUST be "
    "dropped "
    "without any change but of counters (`drop_tag`).";

}  // namespace mroce::comply
