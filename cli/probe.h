// What this machine can do for mroce, found out by trying.
#pragma once

#include <cstdint>
#include <string>

#include "cli/view.h"

namespace mroce::cli {

struct ViewProbe {
  bool works = false;
  std::string refusal;  // why not
};
ViewProbe probe_view(const DeviceView& view);

struct OffloadProbe {
  bool gso = false;  // one call sends several datagrams
  bool gro = false;  // one call receives several
};
// Over two UDP sockets on loopback.
OffloadProbe probe_offload();

struct BufferProbe {
  uint64_t granted_bytes = 0;
  std::string hint;  // empty if that is enough
};
BufferProbe probe_receive_buffer(uint64_t wanted);

}  // namespace mroce::cli
