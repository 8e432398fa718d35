// ACK: 28 bytes, up to four path blocks, then TLVs up to the end of the datagram.
#include "core/base/assert.h"
#include "core/wire/codec.h"
#include "core/wire/tlv.h"

namespace mroce::wire {
namespace {

constexpr size_t kWords = 4;
static_assert(kWords * 64 == kVectorBits && at::path_block::vector.bits == kVectorBits);

bool decode_block(const std::byte* p, PathBlock& out) {
  out.path = get<at::path_block::path>(p);
  out.flags = get<at::path_block::flags>(p);
  out.rate = get<at::path_block::rate>(p);
  out.largest = get<at::path_block::largest>(p);
  for (size_t i = 0; i < kWords; ++i)
    out.vector[i] = load_be<uint64_t>(p + at::path_block::vector.offset + 8 * i);
  out.rx_count = get<at::path_block::rx_count>(p);
  out.ce_count = get<at::path_block::ce_count>(p);
  out.ts_echo = get<at::path_block::ts_echo>(p);
  out.ack_delay = get<at::path_block::ack_delay>(p);
  return out.path < kMaxPaths;
}

void encode_block(const PathBlock& block, std::byte* out) {
  put<at::path_block::path>(out, block.path);
  put<at::path_block::flags>(out, block.flags);
  put<at::path_block::rate>(out, block.rate);
  put<at::path_block::largest>(out, block.largest);
  for (size_t i = 0; i < kWords; ++i) store_be(out + at::path_block::vector.offset + 8 * i, block.vector[i]);
  put<at::path_block::rx_count>(out, block.rx_count);
  put<at::path_block::ce_count>(out, block.ce_count);
  put<at::path_block::ts_echo>(out, block.ts_echo);
  put<at::path_block::ack_delay>(out, block.ack_delay);
  put_zero<at::path_block::zero>(out);
}

bool take_nak(In value, Ack& out) {
  if (value.size() != end_of::nak || out.nnaks == kMaxAckNaks) return false;
  Nak& nak = out.naks[out.nnaks++];
  nak.cpsn = get<at::nak::cpsn>(value.data());
  nak.code = static_cast<NakCode>(get<at::nak::code>(value.data()));
  nak.arg = get<at::nak::arg>(value.data());
  return nak.code != NakCode::kNone && is_known(nak.code);
}

bool take_credit(In value, Ack& out) {
  if (value.size() != end_of::rq_credit || out.ncredits == kMaxAckCredits) return false;
  Credit& credit = out.credits[out.ncredits++];
  credit.stream = get<at::rq_credit::stream>(value.data());
  credit.incarnation = get<at::rq_credit::incarnation>(value.data());
  credit.limit = get<at::rq_credit::limit>(value.data());
  return true;
}

bool take_port_status(In value, Ack& out) {
  if (value.size() != end_of::port_status || out.has_port_status) return false;
  out.has_port_status = true;
  out.port_status.mask = get<at::port_status::mask>(value.data());
  out.port_status.sequence = get<at::port_status::sequence>(value.data());
  return true;
}

bool take_reclaim(In value, Ack& out) {
  if (value.size() != end_of::credit_reclaim || out.nreclaims == out.reclaims.size()) return false;
  out.reclaims[out.nreclaims++] = get<at::credit_reclaim::stream>(value.data());
  return true;
}

bool take_tlv(const TlvView& tlv, Ack& out) {
  switch (tlv.type) {
    case Tlv::kNak:
      return take_nak(tlv.value, out);
    case Tlv::kRqCredit:
      return take_credit(tlv.value, out);
    case Tlv::kPortStatus:
      return take_port_status(tlv.value, out);
    case Tlv::kCreditReclaim:
      return take_reclaim(tlv.value, out);
    default:
      return true;
  }
}

// Writes the head of a TLV and returns where its value goes.
std::byte* begin_tlv(std::byte*& cursor, Tlv type, size_t length) {
  put<at::tlv::type>(cursor, static_cast<uint8_t>(type));
  put<at::tlv::length>(cursor, static_cast<uint8_t>(length));
  std::byte* const value = cursor + end_of::tlv;
  cursor = value + length;
  return value;
}

size_t encoded_bytes(const Ack& ack) {
  return kAckBytes + ack.nblocks * kPathBlockBytes + ack.nnaks * (end_of::tlv + end_of::nak) +
         ack.ncredits * (end_of::tlv + end_of::rq_credit) +
         ack.nreclaims * (end_of::tlv + end_of::credit_reclaim) +
         (ack.has_port_status ? end_of::tlv + end_of::port_status : 0);
}

void encode_tlvs(const Ack& ack, std::byte*& cursor) {
  for (size_t i = 0; i < ack.nnaks; ++i) {
    std::byte* const value = begin_tlv(cursor, Tlv::kNak, end_of::nak);
    put<at::nak::cpsn>(value, ack.naks[i].cpsn);
    put<at::nak::code>(value, static_cast<uint8_t>(ack.naks[i].code));
    put_zero<at::nak::zero>(value);
    put<at::nak::arg>(value, ack.naks[i].arg);
  }
  for (size_t i = 0; i < ack.ncredits; ++i) {
    std::byte* const value = begin_tlv(cursor, Tlv::kRqCredit, end_of::rq_credit);
    put<at::rq_credit::stream>(value, ack.credits[i].stream);
    put<at::rq_credit::incarnation>(value, ack.credits[i].incarnation);
    put<at::rq_credit::limit>(value, ack.credits[i].limit);
  }
  for (size_t i = 0; i < ack.nreclaims; ++i) {
    put<at::credit_reclaim::stream>(begin_tlv(cursor, Tlv::kCreditReclaim, end_of::credit_reclaim),
                                    ack.reclaims[i]);
  }
  if (ack.has_port_status) {
    std::byte* const value = begin_tlv(cursor, Tlv::kPortStatus, end_of::port_status);
    put<at::port_status::mask>(value, ack.port_status.mask);
    put<at::port_status::sequence>(value, ack.port_status.sequence);
  }
}

}  // namespace

bool decode_ack(In datagram, Ack& out) {
  if (datagram.size() < kAckBytes) return false;
  const std::byte* p = datagram.data();
  out.cack = get<at::ack::cack>(p);
  out.nblocks = get<at::ack::nblocks>(p);
  out.host_penalty = get<at::ack::host_penalty>(p);
  out.flags = get<at::ack::flags>(p);
  out.cpsn_limit = get<at::ack::cpsn_limit>(p);
  out.nnaks = out.ncredits = out.nreclaims = 0;
  out.has_port_status = false;
  if (out.nblocks > kMaxPathBlocks || out.host_penalty > 127) return false;
  In rest = datagram.subspan(kAckBytes);
  if (rest.size() < out.nblocks * kPathBlockBytes) return false;
  for (size_t i = 0; i < out.nblocks; ++i) {
    if (!decode_block(rest.data() + i * kPathBlockBytes, out.blocks[i])) return false;
  }
  rest = rest.subspan(out.nblocks * kPathBlockBytes);
  while (!rest.empty()) {
    const auto tlv = next_tlv(rest);
    if (!tlv || !take_tlv(*tlv, out)) return false;
  }
  return true;
}

size_t encode_ack(const Common& header, const Ack& ack, Out out) {
  MROCE_ASSERT(ack.nblocks <= ack.blocks.size() && ack.nnaks <= ack.naks.size());
  MROCE_ASSERT(ack.ncredits <= ack.credits.size() && ack.nreclaims <= ack.reclaims.size());
  const size_t bytes = encoded_bytes(ack);
  if (out.size() < bytes) return 0;
  std::byte* const p = out.data();
  encode_common(header, p);
  put<at::ack::cack>(p, ack.cack);
  put<at::ack::nblocks>(p, ack.nblocks);
  put<at::ack::host_penalty>(p, ack.host_penalty);
  put<at::ack::flags>(p, ack.flags);
  put<at::ack::cpsn_limit>(p, ack.cpsn_limit);
  for (size_t i = 0; i < ack.nblocks; ++i) encode_block(ack.blocks[i], p + kAckBytes + i * kPathBlockBytes);
  std::byte* cursor = p + kAckBytes + ack.nblocks * kPathBlockBytes;
  encode_tlvs(ack, cursor);
  MROCE_ASSERT(cursor == p + bytes);
  return bytes;
}

}  // namespace mroce::wire
