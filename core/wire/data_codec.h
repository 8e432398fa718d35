// The hot half of the codec, inline: common header and DATA. Included by codec.h; include that one.
//
// TLVs of a DATA packet (flag EXT) stand between the headers and the payload and end with the TLV END (two
// zero bytes), since nothing else would say where the payload begins. This version sends none and skips all
// of them.
#pragma once

#include "core/wire/codec.h"
#include "core/wire/field_table.h"

namespace mroce::wire {

inline bool decode_common(In datagram, Common& out) {
  if (datagram.size() < kCommonBytes) return false;
  const std::byte* p = datagram.data();
  const auto first = static_cast<uint8_t>(p[at::common::version.offset]);
  out.version = static_cast<uint8_t>(first >> 4);
  out.type = static_cast<Type>(first & 0x0f);
  out.flags = static_cast<uint8_t>(get<at::common::flags>(p) & 0xfe);
  out.path = get<at::common::path>(p);
  out.epoch = get<at::common::epoch>(p);
  out.dcid = get<at::common::dcid>(p);
  out.pseq = get<at::common::pseq>(p);
  out.ts = get<at::common::ts>(p);
  return true;
}

inline void encode_common(const Common& header, std::byte* out) {
  out[at::common::version.offset] =
      static_cast<std::byte>((unsigned{header.version} << 4) | (static_cast<unsigned>(header.type) & 0x0f));
  put<at::common::flags>(out, static_cast<uint8_t>(header.flags & 0xfe));
  put<at::common::path>(out, header.path);
  put<at::common::epoch>(out, header.epoch);
  put<at::common::dcid>(out, header.dcid);
  put<at::common::pseq>(out, header.pseq);
  put<at::common::ts>(out, header.ts);
}

constexpr bool is_known(DataOp op) {
  return op <= DataOp::kVoid || is_stream_control(op);
}
constexpr bool is_known(NakCode code) {
  return code <= NakCode::kUnknownStream;
}

// Does a packet of this op carry a piece of a message? Others have no payload, stream control has its 32
// bytes.
constexpr bool carries_message(DataOp op) {
  return op <= DataOp::kSendInv || op == DataOp::kReadResp;
}

// Bytes of the TLV list at the start of `in`, END included; 0 if the list is malformed. (tlv.cc)
size_t data_tlv_bytes(In in);

namespace detail {

// Reads the extension that belongs to out.op; the bytes are there. False if a value in it has no meaning.
inline bool decode_extension(const std::byte* p, Data& out) {
  switch (out.op) {
    case DataOp::kWrite:
      out.va = get<at::ext_write::va>(p);
      out.rkey = get<at::ext_write::rkey>(p);
      return true;
    case DataOp::kWriteImm:
      out.va = get<at::ext_write_imm::va>(p);
      out.rkey = get<at::ext_write_imm::rkey>(p);
      out.rqsn = get<at::ext_write_imm::rqsn>(p);
      out.imm = get<at::ext_write_imm::imm>(p);
      return true;
    case DataOp::kSend:
    case DataOp::kSendImm:
    case DataOp::kSendInv:
      out.rqsn = get<at::ext_send::rqsn>(p);
      out.imm = out.op == DataOp::kSend ? 0 : get<at::ext_send::imm>(p);
      return true;
    case DataOp::kReadReq:
      out.va = get<at::ext_read_req::va>(p);
      out.rkey = get<at::ext_read_req::rkey>(p);
      out.rdslot = get<at::ext_read_req::rdslot>(p);
      return true;
    case DataOp::kReadResp:
      out.rdslot = get<at::ext_read_resp::rdslot>(p);
      out.status = static_cast<NakCode>(get<at::ext_read_resp::status>(p));
      return is_known(out.status);
    case DataOp::kCompareSwap:
    case DataOp::kFetchAdd:
      out.va = get<at::ext_atomic::va>(p);
      out.rkey = get<at::ext_atomic::rkey>(p);
      out.rdslot = get<at::ext_atomic::rdslot>(p);
      out.operand = get<at::ext_atomic::operand>(p);
      out.compare = out.op == DataOp::kFetchAdd ? 0 : get<at::ext_atomic::compare>(p);
      return true;
    case DataOp::kAtomicResp:
      out.rdslot = get<at::ext_atomic_resp::rdslot>(p);
      out.status = static_cast<NakCode>(get<at::ext_atomic_resp::status>(p));
      out.operand = get<at::ext_atomic_resp::original>(p);
      return is_known(out.status);
    default:
      return true;
  }
}

inline void encode_extension(const Data& data, std::byte* out) {
  switch (data.op) {
    case DataOp::kWrite:
      put<at::ext_write::va>(out, data.va);
      put<at::ext_write::rkey>(out, data.rkey);
      break;
    case DataOp::kWriteImm:
      put<at::ext_write_imm::va>(out, data.va);
      put<at::ext_write_imm::rkey>(out, data.rkey);
      put<at::ext_write_imm::rqsn>(out, data.rqsn);
      put<at::ext_write_imm::imm>(out, data.imm);
      break;
    case DataOp::kSend:
    case DataOp::kSendImm:
    case DataOp::kSendInv:
      put<at::ext_send::rqsn>(out, data.rqsn);
      put<at::ext_send::imm>(out, data.op == DataOp::kSend ? 0 : data.imm);
      break;
    case DataOp::kReadReq:
      put<at::ext_read_req::va>(out, data.va);
      put<at::ext_read_req::rkey>(out, data.rkey);
      put<at::ext_read_req::rdslot>(out, data.rdslot);
      break;
    case DataOp::kReadResp:
      put<at::ext_read_resp::rdslot>(out, data.rdslot);
      put<at::ext_read_resp::status>(out, static_cast<uint8_t>(data.status));
      put_zero<at::ext_read_resp::zero>(out);
      break;
    case DataOp::kCompareSwap:
    case DataOp::kFetchAdd:
      put<at::ext_atomic::va>(out, data.va);
      put<at::ext_atomic::rkey>(out, data.rkey);
      put<at::ext_atomic::rdslot>(out, data.rdslot);
      put<at::ext_atomic::operand>(out, data.operand);
      put<at::ext_atomic::compare>(out, data.op == DataOp::kFetchAdd ? 0 : data.compare);
      break;
    case DataOp::kAtomicResp:
      put<at::ext_atomic_resp::rdslot>(out, data.rdslot);
      put<at::ext_atomic_resp::status>(out, static_cast<uint8_t>(data.status));
      put_zero<at::ext_atomic_resp::zero>(out);
      put<at::ext_atomic_resp::original>(out, data.operand);
      break;
    default:
      break;
  }
}

}  // namespace detail

inline bool decode_data(In datagram, const Common& header, Data& out, In& payload) {
  if (datagram.size() < kDataBytes) return false;
  const std::byte* p = datagram.data();
  out = Data{};
  out.op = static_cast<DataOp>(get<at::data::op>(p));
  if (!is_known(out.op)) return false;
  size_t start = header_bytes(out.op);
  if (datagram.size() < start) return false;
  out.cpsn = get<at::data::cpsn>(p);
  out.stream = get<at::data::stream>(p);
  out.backlog = get<at::data::backlog>(p);
  out.msn = get<at::data::msn>(p);
  out.offset = get<at::data::offset>(p);
  out.length = get<at::data::length>(p);
  if (!detail::decode_extension(p, out)) return false;
  if ((header.flags & flag::kExtension) != 0) [[unlikely]] {
    const size_t tlvs = data_tlv_bytes(datagram.subspan(start));
    if (tlvs == 0) return false;
    start += tlvs;
  }
  payload = datagram.subspan(start);
  if (carries_message(out.op)) return uint64_t{out.offset} + payload.size() <= out.length;
  return payload.size() == (is_stream_control(out.op) ? kStreamControlBytes : 0);
}

inline size_t data_header_bytes(In datagram, uint8_t flags) {
  if (datagram.size() < kDataBytes) return 0;
  const auto op = static_cast<DataOp>(get<at::data::op>(datagram.data()));
  if (!is_known(op)) return 0;
  size_t bytes = header_bytes(op);
  if (datagram.size() < bytes) return 0;
  if ((flags & flag::kExtension) != 0) [[unlikely]] {
    const size_t tlvs = data_tlv_bytes(datagram.subspan(bytes));
    if (tlvs == 0) return 0;
    bytes += tlvs;
  }
  return bytes;
}

inline size_t encode_data(const Common& header, const Data& data, std::byte* out) {
  encode_common(header, out);
  put<at::data::cpsn>(out, data.cpsn);
  put<at::data::stream>(out, data.stream);
  put<at::data::op>(out, static_cast<uint8_t>(data.op));
  put<at::data::backlog>(out, data.backlog);
  put<at::data::msn>(out, data.msn);
  put<at::data::offset>(out, data.offset);
  put<at::data::length>(out, data.length);
  detail::encode_extension(data, out);
  return header_bytes(data.op);
}

}  // namespace mroce::wire
