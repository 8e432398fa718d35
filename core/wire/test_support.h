// Shared by the tests of the codec: random packets, exact-size copies and hexadecimal.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <memory>
#include <string_view>
#include <vector>

#include "core/base/rng.h"
#include "core/wire/codec.h"

namespace mroce::wire::test {

using Bytes = std::vector<std::byte>;

// A copy in a heap block of exactly its size, so that the address sanitizer sees a read behind it.
class Exact {
 public:
  explicit Exact(In bytes) : size_(bytes.size()), block_(new std::byte[size_]) {
    std::copy(bytes.begin(), bytes.end(), block_.get());
  }
  In view() const { return {block_.get(), size_}; }

 private:
  size_t size_;
  std::unique_ptr<std::byte[]> block_;
};

inline Bytes from_hex(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  Bytes bytes;
  int high = -1;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) continue;
    if (high < 0) {
      high = static_cast<int>(digit);
    } else {
      bytes.push_back(static_cast<std::byte>(high * 16 + static_cast<int>(digit)));
      high = -1;
    }
  }
  return bytes;
}

// A random value of any unsigned type; one in four is an extreme one.
template <class T>
T any(Rng& rng) {
  switch (rng.below(8)) {
    case 0:
      return static_cast<T>(0);
    case 1:
      return static_cast<T>(~T{0});
    default:
      return static_cast<T>(rng.next());
  }
}

inline Common any_common(Rng& rng, Type type, bool extension = false) {
  Common header;
  header.type = type;
  header.flags = static_cast<uint8_t>((any<uint8_t>(rng) & 0xfau) | (extension ? flag::kExtension : 0u));
  header.path = any<uint8_t>(rng);
  header.epoch = any<uint8_t>(rng);
  header.dcid = any<uint32_t>(rng);
  header.pseq = any<uint32_t>(rng);
  header.ts = any<uint32_t>(rng);
  return header;
}

inline constexpr std::array kAllOps = {DataOp::kWrite,       DataOp::kWriteImm,      DataOp::kSend,
                                       DataOp::kSendImm,     DataOp::kSendInv,       DataOp::kReadReq,
                                       DataOp::kReadResp,    DataOp::kCompareSwap,   DataOp::kFetchAdd,
                                       DataOp::kAtomicResp,  DataOp::kVoid,          DataOp::kStreamOpen,
                                       DataOp::kStreamClose, DataOp::kStreamAccept,  DataOp::kStreamRefuse,
                                       DataOp::kStreamStop,  DataOp::kStreamBlocked, DataOp::kCreditReturn};

inline size_t any_payload_bytes(Rng& rng, DataOp op) {
  if (is_stream_control(op)) return kStreamControlBytes;
  return carries_message(op) ? rng.below(100) : 0;
}

// Random in every field that the op has, zero in the others; room for `payload` bytes of the message.
inline Data any_data(Rng& rng, DataOp op, size_t payload) {
  Data data;
  data.op = op;
  data.cpsn = any<uint32_t>(rng);
  data.stream = any<uint16_t>(rng);
  data.backlog = any<uint8_t>(rng);
  data.msn = any<uint32_t>(rng);
  data.offset = static_cast<uint32_t>(rng.below(1u << 31));
  data.length = static_cast<uint32_t>(rng.between(data.offset + payload, 0xffffffffu));
  const bool is_atomic = op == DataOp::kCompareSwap || op == DataOp::kFetchAdd;
  const bool is_response = op == DataOp::kReadResp || op == DataOp::kAtomicResp;
  if (op == DataOp::kWrite || op == DataOp::kWriteImm || op == DataOp::kReadReq || is_atomic) {
    data.va = any<uint64_t>(rng);
    data.rkey = any<uint32_t>(rng);
  }
  if (op >= DataOp::kWriteImm && op <= DataOp::kSendInv) {
    data.rqsn = any<uint32_t>(rng);
    if (op != DataOp::kSend) data.imm = any<uint32_t>(rng);
  }
  if (op == DataOp::kReadReq || is_atomic || is_response) data.rdslot = any<uint32_t>(rng);
  if (is_atomic || op == DataOp::kAtomicResp) data.operand = any<uint64_t>(rng);
  if (op == DataOp::kCompareSwap) data.compare = any<uint64_t>(rng);
  if (is_response) data.status = static_cast<NakCode>(rng.below(11));
  return data;
}

inline StreamControl any_stream_control(Rng& rng) {
  StreamControl control;
  control.src_qpn = any<uint32_t>(rng) & 0xffffff;
  control.dst_qpn = any<uint32_t>(rng) & 0xffffff;
  control.sq_psn = any<uint32_t>(rng) & 0xffffff;
  control.incarnation = any<uint32_t>(rng);
  control.credit_limit = any<uint32_t>(rng);
  control.rd_atomic = any<uint8_t>(rng);
  control.min_rnr_timer = static_cast<uint8_t>(rng.below(32));
  control.reason = static_cast<StopReason>(rng.below(6));
  control.code = static_cast<NakCode>(rng.below(11));
  return control;
}

inline Ack any_ack(Rng& rng, size_t blocks, size_t naks, size_t credits, size_t reclaims, bool port_status) {
  Ack ack;
  ack.cack = any<uint32_t>(rng);
  ack.host_penalty = static_cast<uint8_t>(rng.below(128));
  ack.flags = any<uint16_t>(rng);
  ack.cpsn_limit = any<uint32_t>(rng);
  ack.nblocks = static_cast<uint8_t>(blocks);
  for (size_t i = 0; i < blocks; ++i) {
    PathBlock& block = ack.blocks[i];
    block = {static_cast<uint8_t>(rng.below(kMaxPaths)),
             any<uint8_t>(rng),
             any<uint16_t>(rng),
             any<uint32_t>(rng),
             {any<uint64_t>(rng), any<uint64_t>(rng), any<uint64_t>(rng), any<uint64_t>(rng)},
             any<uint32_t>(rng),
             any<uint32_t>(rng),
             any<uint32_t>(rng),
             any<uint16_t>(rng)};
  }
  ack.nnaks = static_cast<uint8_t>(naks);
  for (size_t i = 0; i < naks; ++i) {
    ack.naks[i] = {any<uint32_t>(rng), static_cast<NakCode>(rng.between(1, 10)), any<uint32_t>(rng)};
  }
  ack.ncredits = static_cast<uint8_t>(credits);
  for (size_t i = 0; i < credits; ++i)
    ack.credits[i] = {any<uint16_t>(rng), any<uint32_t>(rng), any<uint16_t>(rng)};
  ack.nreclaims = static_cast<uint8_t>(reclaims);
  for (size_t i = 0; i < reclaims; ++i) ack.reclaims[i] = any<uint16_t>(rng);
  ack.has_port_status = port_status;
  if (port_status) ack.port_status = {any<uint32_t>(rng), any<uint32_t>(rng)};
  return ack;
}

inline Ack any_ack(Rng& rng) {
  return any_ack(rng, rng.below(5), rng.below(17), rng.below(65), rng.below(17), rng.chance(0.5));
}

inline Probe any_probe(Rng& rng) {
  Probe probe;
  probe.token = any<uint64_t>(rng);
  probe.kind = static_cast<uint8_t>(rng.below(2));
  probe.nstreams = static_cast<uint8_t>(rng.below(kMaxProbeStreams + 1));
  for (size_t i = 0; i < probe.nstreams; ++i) probe.streams[i] = any<uint16_t>(rng);
  return probe;
}

inline Init any_init(Rng& rng) {
  Init init;
  init.version_min = any<uint8_t>(rng);
  init.version_max = any<uint8_t>(rng);
  init.security = any<uint8_t>(rng);
  init.flags = any<uint8_t>(rng);
  init.scid = any<uint32_t>(rng);
  for (auto& byte : init.endpoint_id) byte = any<uint8_t>(rng);
  for (auto& byte : init.reset_token) byte = any<uint8_t>(rng);
  init.nonce = any<uint64_t>(rng);
  init.listen_port = any<uint16_t>(rng);
  init.payload_mtu = any<uint16_t>(rng);
  init.max_paths = any<uint8_t>(rng);
  init.nports = static_cast<uint8_t>(rng.between(1, kMaxPlanes));
  init.max_streams = any<uint16_t>(rng);
  init.cpsn_window = any<uint32_t>(rng);
  init.first_cpsn = any<uint32_t>(rng);
  init.first_pseq = any<uint32_t>(rng);
  init.receive_buffer = any<uint32_t>(rng);
  init.known_cid = any<uint32_t>(rng);
  for (size_t i = 0; i < init.nports; ++i) {
    for (auto& byte : init.ports[i].address.raw) byte = any<uint8_t>(rng);
    init.ports[i].prefix_bits = static_cast<uint32_t>(rng.below(129));
    init.ports[i].rate_mbps = any<uint32_t>(rng);
  }
  return init;
}

inline VersionList any_version_list(Rng& rng) {
  VersionList list;
  list.count = static_cast<uint8_t>(rng.between(1, list.versions.size()));
  for (size_t i = 0; i < list.count; ++i) list.versions[i] = any<uint8_t>(rng);
  return list;
}

// Runs an encoder on a buffer of `room` bytes that is full of ones, and cuts to what it wrote.
template <class Encode>
Bytes encoded(Encode&& encode, size_t room = 4096) {
  Bytes bytes(room, std::byte{0xff});
  bytes.resize(encode(Out(bytes)));
  return bytes;
}

inline Bytes encoded_data(const Common& header, const Data& data, In payload) {
  Bytes bytes(kMaxHeaderBytes, std::byte{0xff});
  bytes.resize(encode_data(header, data, bytes.data()));
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

inline Bytes any_bytes(Rng& rng, size_t count) {
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::byte>(rng.next());
  return bytes;
}

}  // namespace mroce::wire::test
