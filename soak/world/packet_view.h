// PacketView: one datagram on its way, decoded on demand; what filters and traces look at.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/base/time.h"
#include "core/mroce/burst.h"
#include "core/wire/codec.h"

namespace mroce::soak {

class PacketView {
 public:
  Time at{};            // when it was sent
  uint64_t number = 0;  // of all datagrams sent in this network, from 0
  uint32_t from = 0;    // endpoints, by index
  uint32_t to = 0;
  uint8_t path = 0;
  uint16_t entropy = 0;  // which source port, and so which way through a fabric
  uint32_t port = 0;     // of the sender
  uint32_t to_port = 0;
  Ecn ecn = Ecn::kNotEct;
  std::span<const std::byte> bytes;  // trailer included

  // Everything else is decoded when asked for; a datagram that is not well formed has no header.
  const wire::Common* header() const;
  const wire::Data* data() const;                             // type DATA only
  const wire::Ack* ack() const;                               // type ACK only
  std::span<const std::byte> payload() const;                 // of DATA
  std::optional<wire::StreamControl> stream_control() const;  // of DATA with a STREAM_* or CREDIT_RETURN op
  bool is(wire::Type type) const { return header() != nullptr && header()->type == type; }
  bool is(wire::DataOp op) const { return data() != nullptr && data()->op == op; }
  bool is_retransmission() const {
    return header() != nullptr && (header()->flags & wire::flag::kRetransmit) != 0;
  }

 private:
  std::span<const std::byte> body() const { return bytes.first(bytes.size() - wire::kTrailerBytes); }
  mutable bool looked_at_header_ = false, looked_at_data_ = false, looked_at_ack_ = false;
  mutable std::optional<wire::Common> header_;
  mutable std::optional<wire::Data> data_;
  mutable std::optional<wire::Ack> ack_;
  mutable std::span<const std::byte> payload_;
};

// One readable line, without time and direction: "DATA p1 pseq 7 cpsn 9 WRITE stream 16 msn 0 4096+1024 of
// 8192".
std::string describe(const PacketView& packet);

}  // namespace mroce::soak
