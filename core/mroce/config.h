// Everything that shapes an Engine. Defaults are the "software UDP" profile of docs/spec, section
// "Constants".
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "core/base/address.h"
#include "core/base/time.h"
#include "core/mroce/burst.h"
#include "core/mroce/mutants.h"

namespace mroce {

// One local address that can carry a plane of a connection.
struct LocalPort {
  Gid address;
  uint32_t prefix_bits = 128;  // of 128: an IPv4 /24 is 120
  uint32_t link_mtu = 1500;    // bytes of an IP packet
  uint64_t rate_bps = 0;       // 0: unknown
  bool up = true;
};

// Which modes are offered and taken: 0 (CRC-32C) only; both, 2 (AES-GCM) if the peer has it; 2 only.
enum class SecurityPolicy : uint8_t { kOff, kPrefer, kRequire };

struct EngineConfig {
  uint64_t seed = 1;  // entropy of paths, and what `entropy` is not there for
  // Random bytes that nobody can guess, for keys, cookies, tokens, connection ids and first sequence numbers;
  // empty: from the seeded generator, so that a run can be repeated (tests, simulation).
  std::function<void(std::span<uint8_t>)> entropy;
  std::array<uint8_t, 16> endpoint_id{};  // random per process
  uint8_t slot = 0;                       // bits 23-16 of every QPN; UDP port = base_port + slot
  uint16_t base_port = 61440;
  std::vector<LocalPort> ports;  // GID table order; at most 64

  // MTU of the link that leads from a port to `remote`; empty: the port's own link MTU. Must answer the same
  // each time.
  std::function<uint32_t(uint32_t port, const Gid& remote)> link_mtu_to;

  uint32_t max_paths = 4;                   // of one connection in one direction, 1..32
  uint32_t max_planes = 8;                  // 1..8
  uint32_t max_payload = 4096;              // bytes of payload of a packet, upper bound of what is negotiated
  uint32_t cpsn_window = 16384;             // packets, 64..2^20
  uint32_t window_bytes = 1 << 20;          // cap of the connection window
  uint32_t receive_buffer_bytes = 1 << 20;  // of the receiving socket, as granted
  uint32_t initial_window = 32;             // packets a path
  uint32_t max_burst_bytes = kMaxBurstBytes;  // of data; at least one packet
  uint32_t ack_every = 16;                    // packets
  uint8_t block_repeats = 2;                  // further ACKs that repeat a path block where they have room
  Nanos ack_delay = micros(50);
  Nanos ack_request_delay =
      micros(2);  // grace after AR, so that the application's answer goes out before the ACK
  Nanos pto_min = millis(1);
  Nanos pto_max = millis(100);
  Nanos reo_min = micros(200);
  Nanos delay_gate = millis(1);   // queueing above max(half the base RTT, this) counts as congestion
  Nanos probe_max = millis(200);  // between probes of a failed path
  Nanos silence_limit = seconds(5);
  Nanos keepalive = seconds(10);
  Nanos close_linger = seconds(1);
  Nanos drain_limit = millis(300);  // before CLOSE, for what is still unacknowledged
  uint32_t link_overhead = 66;      // bytes of a datagram on the link beside UDP payload, for rate hints
  bool degraded_paths = false;      // avoid paths that lose much more than the others; see path_health.cc
  bool rate_hints = false;          // give and obey them; only on ports whose rate is known
  bool ecn = true;                  // set ECT(0)
  bool virtual_payload = false;     // see engine.h, "Virtual payload"
  bool tail_hold = true;            // visibility order for last-byte polling; see docs/spec
  SecurityPolicy security = SecurityPolicy::kOff;        // anything else is impossible with virtual_payload
  std::optional<std::array<uint8_t, 32>> preshared_key;  // mode 2: without it peers are not authenticated
  uint64_t key_update_packets = 1 << 23;                 // mode 2: of one direction, with one key
  uint64_t key_max_packets = 1 << 24;       // mode 2: never more; at least kMaxSegments above that
  uint64_t tag_failure_limit = 1ULL << 36;  // mode 2: failed checks that end a connection
  uint32_t retry_above = 64;  // connections that are not validated, before an INIT needs a cookie

  uint32_t max_qp = 65519;  // limits reported by verbs
  uint32_t max_cq = 65536;
  uint32_t max_mr = 1 << 20;
  uint32_t max_pd = 65536;
  uint32_t max_srq = 65536;
  uint32_t max_connections = 4096;
  uint32_t max_cqe = 1 << 22;
  uint32_t max_qp_wr = 32768;
  uint32_t max_srq_wr = 32768;
  uint32_t max_sge = 32;
  uint32_t max_inline = 1024;
  uint8_t max_rd_atomic = 16;
  uint32_t held_bytes = 4 << 20;  // tails held back in one engine

#ifdef MROCE_MUTANTS
  Mutant mutant = Mutant::kNone;  // the one thing that this engine does wrong
#endif
};

}  // namespace mroce
