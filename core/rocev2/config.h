// What a RoCEv2 endpoint can be told. Presets with these fields filled in are in sim/rocev2_options.h.
#pragma once

#include <cstdint>

#include "core/base/time.h"
#include "core/rocev2/dcqcn.h"

namespace mroce::rocev2 {

enum class Recovery : uint8_t {
  kGoBackN,          // IBTA chapter 9.9
  kSelectiveRepeat,  // IRN: Mittal et al., "Revisiting Network Support for RDMA", SIGCOMM 2018
};

struct LossConfig {
  Recovery recovery = Recovery::kGoBackN;
  // A receiver that waits for a packet answers a later one with a NAK: once for each gap (0), or again when
  // this much time has gone by. With selective repeat every packet out of order is answered.
  Nanos nak_interval{0};
  bool nak_cuts_rate = false;  // a NAK counts as a CNP at the sender
  // Selective repeat: the NAK that begins a recovery makes everything lost that is not known to have arrived,
  // as ConWeave's model has it; otherwise only what has a gap before it.
  bool nak_resends_all = false;
  // Retransmission timeout. 0: 4.096 us * 2^timeout of the queue pair. With IRN: RTO_high.
  Nanos timeout{0};
  Nanos rto_low{0};              // IRN: while at most rto_low_packets are outstanding
  uint32_t rto_low_packets = 3;  // N of the paper
  // Adaptive retransmission, as ConnectX documents it: the first expiry comes early, at a random point
  // between adaptive_base and twice that; each further one doubles, up to the ordinary timeout. Expiries
  // before that do not use up retry_cnt.
  bool adaptive = false;
  Nanos adaptive_base = micros(16);
  uint32_t adaptive_doublings = 4;
};

struct WindowConfig {
  uint64_t bytes = 0;     // payload outstanding per queue pair, rounded up to packets; 0: no limit
  bool variable = false;  // times rate over line rate, at least one packet
};

struct EngineConfig {
  uint64_t seed = 1;
  double line_rate_bps = 100e9;
  uint32_t mtu = 4096;  // payload of a packet, a multiple of 4
  // Beside payload and BTH with its extensions, a packet takes this much of the line; the pacer counts it.
  uint32_t overhead_bytes = 70;
  uint32_t max_qps = 1u << 20;
  DcqcnConfig dcqcn;
  LossConfig loss;
  WindowConfig window;
  bool ecn = true;                 // data packets are sent ECT(0), and CE is answered with CNPs
  Nanos cnp_gap = micros(4);       // min_time_between_cnps, per queue pair
  uint32_t ack_interval = 16;      // packets between acknowledge requests inside of a message
  bool end_to_end_credits = true;  // announce posted receives in ACKs
};

}  // namespace mroce::rocev2
