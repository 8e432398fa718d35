// What a run sets for all switches and NICs.
#pragma once

#include <array>
#include <cstdint>

#include "sim/ecn.h"
#include "sim/time.h"

namespace mroce::sim {

inline constexpr uint32_t kClasses = 8;  // priorities; 7 is the highest

// One pool for all ports of a switch; a queue may hold alpha times what is free (Choudhury and Hahne 1998).
struct SharedBufferConfig {
  uint64_t bytes = 0;  // 0: none, queues have limits of their own
  double alpha = 1;
};

// Priority flow control (IEEE 802.1Qbb) for the classes of the mask. An ingress port that holds more than its
// threshold of a class pauses it; what still comes in goes into headroom of its own. A pause lasts until
// resumed; its timer is not modelled.
struct PfcConfig {
  static constexpr uint64_t kAuto = UINT64_MAX;
  uint8_t classes = 0;              // bit c: class c is lossless
  uint64_t xoff_bytes = 0;          // fixed threshold of a port and class; 0: dynamic
  double alpha = 0.125;             // dynamic: times what is free in the shared buffer
  uint64_t xon_gap_bytes = 0;       // resume this far below the threshold
  uint64_t headroom_bytes = kAuto;  // of an ingress port and class; kAuto: what its link needs
};

// Credits of a link and class (InfiniBand): the buffer at its far end. 0: no credits.
struct CreditConfig {
  uint64_t buffer_bytes = 0;
};

struct NicConfig {
  uint32_t pull_ahead = 4;      // full packets that a port takes from the transport in advance
  uint64_t receive_bps = 0;     // what the host takes in over all ports; 0: line rate
  uint64_t receive_buffer = 0;  // bytes before it; beyond it packets are lost; 0: without end
  uint64_t receive_xoff = 0;  // pause lossless classes above this; 0: half of the buffer (never, without end)
};

struct FabricConfig {
  uint64_t queue_bytes = 0;  // limit of a port and class; 0: none
  std::array<EcnConfig, kClasses> ecn{};
  SharedBufferConfig shared;
  PfcConfig pfc;
  CreditConfig credit;
  std::array<uint32_t, kClasses> weight{};  // 0: strict; else share among the classes with weights
  bool adaptive = false;                    // least queued next link instead of the hash
  SimTime reroute_after = kEndOfTime;       // a switch avoids its dead links after this
  NicConfig nic;

  void set_ecn(const EcnConfig& config) { ecn.fill(config); }
  // Occupancy counts: every departure must be known when it happens.
  bool accounts() const { return shared.bytes != 0 || pfc.classes != 0 || credit.buffer_bytes != 0; }
};

}  // namespace mroce::sim
