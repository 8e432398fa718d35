#include "core/rocev2/codec.h"

#include <array>

#include "core/wire/bytes.h"

namespace mroce::rocev2 {
namespace {

using wire::load_be;
using wire::store_be;

constexpr uint32_t kLow24 = 0xffffff;

struct Part {
  Op op;
  const char* what;  // q request, p response, f first, l last, d data; then headers R A T a I V S C
};

constexpr Part kParts[] = {
    {Op::kSendFirst, "qfd"},     {Op::kSendMiddle, "qd"},     {Op::kSendLast, "qld"},
    {Op::kSendLastImm, "qldI"},  {Op::kSendOnly, "qfld"},     {Op::kSendOnlyImm, "qfldI"},
    {Op::kWriteFirst, "qfdR"},   {Op::kWriteMiddle, "qd"},    {Op::kWriteLast, "qld"},
    {Op::kWriteLastImm, "qldI"}, {Op::kWriteOnly, "qfldR"},   {Op::kWriteOnlyImm, "qfldRI"},
    {Op::kReadRequest, "qflR"},  {Op::kReadFirst, "pfdA"},    {Op::kReadMiddle, "pd"},
    {Op::kReadLast, "pldA"},     {Op::kReadOnly, "pfldA"},    {Op::kAck, "pA"},
    {Op::kAtomicAck, "pAa"},     {Op::kCompareSwap, "qflT"},  {Op::kFetchAdd, "qflT"},
    {Op::kSendLastInv, "qldV"},  {Op::kSendOnlyInv, "qfldV"}, {Op::kCnp, "C"},
    {Op::kIrnNack, "pAS"},
};

constexpr OpInfo make_info(const char* what) {
  OpInfo i;
  i.known = true;
  size_t bytes = kBthBytes;
  for (; *what != 0; ++what) {
    switch (*what) {
      case 'q':
        i.request = true;
        break;
      case 'p':
        i.response = true;
        break;
      case 'f':
        i.first = true;
        break;
      case 'l':
        i.last = true;
        break;
      case 'd':
        i.payload = true;
        break;
      case 'R':
        i.reth = true;
        bytes += kRethBytes;
        break;
      case 'A':
        i.aeth = true;
        bytes += kAethBytes;
        break;
      case 'T':
        i.atomic = true;
        bytes += kAtomicEthBytes;
        break;
      case 'a':
        i.atomic_ack = true;
        bytes += kAtomicAckBytes;
        break;
      case 'I':
        i.imm = true;
        bytes += kImmBytes;
        break;
      case 'V':
        i.ieth = true;
        bytes += kIethBytes;
        break;
      case 'S':
        i.sack = true;
        bytes += kSackBytes;
        break;
      case 'C':
        bytes += kCnpReserved;
        break;
    }
  }
  i.header_bytes = static_cast<uint8_t>(bytes);
  return i;
}

constexpr std::array<OpInfo, 256> make_table() {
  std::array<OpInfo, 256> table{};
  for (const Part& part : kParts) table[static_cast<uint8_t>(part.op)] = make_info(part.what);
  return table;
}
constexpr std::array<OpInfo, 256> kOps = make_table();

void encode_bth(const Bth& bth, std::byte* out) {
  out[0] = static_cast<std::byte>(bth.op);
  out[1] =
      static_cast<std::byte>((bth.solicited ? 0x80 : 0) | (bth.migrated ? 0x40 : 0) | ((bth.pad & 3) << 4));
  store_be<uint16_t>(out + 2, bth.pkey);
  const uint32_t flags = (bth.fecn ? 0x80u : 0) | (bth.becn ? 0x40u : 0);
  store_be<uint32_t>(out + 4, (flags << 24) | (bth.dqpn & kLow24));
  store_be<uint32_t>(out + 8, (bth.ack_request ? 0x80000000u : 0) | (bth.psn & kLow24));
}

void decode_bth(const std::byte* in, Bth& bth) {
  const auto flags = static_cast<uint8_t>(in[1]);
  bth.op = static_cast<Op>(in[0]);
  bth.solicited = (flags & 0x80) != 0;
  bth.migrated = (flags & 0x40) != 0;
  bth.pad = (flags >> 4) & 3;
  bth.pkey = load_be<uint16_t>(in + 2);
  const auto word = load_be<uint32_t>(in + 4);
  bth.fecn = (word >> 31) != 0;
  bth.becn = ((word >> 30) & 1) != 0;
  bth.dqpn = word & kLow24;
  const auto tail = load_be<uint32_t>(in + 8);
  bth.ack_request = (tail >> 31) != 0;
  bth.psn = tail & kLow24;
}

void encode_sack(const Sack& sack, std::byte* out) {
  store_be<uint32_t>(out, sack.trigger & kLow24);
  store_be<uint64_t>(out + 4, sack.bits[0]);
  store_be<uint64_t>(out + 12, sack.bits[1]);
}

void encode_atomic(const AtomicEth& atomic, std::byte* out) {
  store_be<uint64_t>(out, atomic.va);
  store_be<uint32_t>(out + 8, atomic.rkey);
  store_be<uint64_t>(out + 12, atomic.swap_or_add);
  store_be<uint64_t>(out + 20, atomic.compare);
}

void decode_extensions(const OpInfo& op, const std::byte* in, Headers& h) {
  if (op.reth) {
    h.reth = {load_be<uint64_t>(in), load_be<uint32_t>(in + 8), load_be<uint32_t>(in + 12)};
    in += kRethBytes;
  }
  if (op.aeth) {
    const auto word = load_be<uint32_t>(in);
    h.aeth = {static_cast<uint8_t>(word >> 24), word & kLow24};
    in += kAethBytes;
  }
  if (op.atomic) {
    h.atomic = {load_be<uint64_t>(in), load_be<uint32_t>(in + 8), load_be<uint64_t>(in + 12),
                load_be<uint64_t>(in + 20)};
    in += kAtomicEthBytes;
  }
  if (op.atomic_ack) h.atomic_original = load_be<uint64_t>(in);
  if (op.imm) std::memcpy(&h.imm, in, kImmBytes);
  if (op.ieth) h.imm = load_be<uint32_t>(in);
  if (op.sack) {
    h.sack.trigger = load_be<uint32_t>(in) & kLow24;
    h.sack.bits[0] = load_be<uint64_t>(in + 4);
    h.sack.bits[1] = load_be<uint64_t>(in + 12);
  }
}

}  // namespace

const OpInfo& info(Op op) {
  return kOps[static_cast<uint8_t>(op)];
}

std::string_view sentence_of(DecodeError error) {
  switch (error) {
#define MROCE_ROCEV2_SENTENCE(name, sentence) \
  case DecodeError::name:                     \
    return sentence;
    MROCE_ROCEV2_DECODE_ERRORS(MROCE_ROCEV2_SENTENCE)
#undef MROCE_ROCEV2_SENTENCE
  }
  return "unknown";
}

size_t encode(const Headers& h, std::byte* out) {
  const OpInfo& op = info(h.bth.op);
  encode_bth(h.bth, out);
  if (op.header_bytes == kBthBytes) return kBthBytes;
  std::byte* at = out + kBthBytes;
  if (op.reth) {
    store_be<uint64_t>(at, h.reth.va);
    store_be<uint32_t>(at + 8, h.reth.rkey);
    store_be<uint32_t>(at + 12, h.reth.length);
    at += kRethBytes;
  }
  if (op.aeth) {
    store_be<uint32_t>(at, (uint32_t{h.aeth.syndrome} << 24) | (h.aeth.msn & kLow24));
    at += kAethBytes;
  }
  if (op.atomic) encode_atomic(h.atomic, at);
  if (op.atomic_ack) store_be<uint64_t>(at, h.atomic_original);
  if (op.imm) std::memcpy(at, &h.imm, kImmBytes);
  if (op.ieth) store_be<uint32_t>(at, h.imm);
  if (op.sack) encode_sack(h.sack, at);
  if (h.bth.op == Op::kCnp) std::memset(at, 0, kCnpReserved);
  return op.header_bytes;
}

bool decode_into(std::span<const std::byte> bytes, uint64_t behind, Headers& h, DecodeError& error) {
  const auto refuse = [&error](DecodeError why) {
    error = why;
    return false;
  };
  if (bytes.size() < kBthBytes) return refuse(DecodeError::kTruncated);
  if ((static_cast<uint8_t>(bytes[1]) & 0x0f) != 0) return refuse(DecodeError::kVersion);
  const OpInfo& op = kOps[static_cast<uint8_t>(bytes[0])];
  if (!op.known) return refuse(DecodeError::kOpcode);
  if (bytes.size() < op.header_bytes) return refuse(DecodeError::kTruncated);
  decode_bth(bytes.data(), h.bth);
  if (!op.payload && (behind != 0 || h.bth.pad != 0)) return refuse(DecodeError::kPayload);
  if (behind % 4 != 0 || h.bth.pad > behind) return refuse(DecodeError::kPad);
  if (op.payload && !op.last && behind == 0) return refuse(DecodeError::kPayload);
  if (op.header_bytes != kBthBytes) decode_extensions(op, bytes.data() + kBthBytes, h);
  return true;
}

tl::expected<Headers, DecodeError> decode(std::span<const std::byte> bytes, uint64_t behind) {
  Headers headers;
  DecodeError error{};
  if (!decode_into(bytes, behind, headers, error)) return tl::unexpected(error);
  return headers;
}

tl::expected<Headers, DecodeError> decode_whole(std::span<const std::byte> bytes) {
  if (bytes.empty()) return tl::unexpected(DecodeError::kTruncated);
  const size_t header = kOps[static_cast<uint8_t>(bytes[0])].header_bytes;
  return decode(bytes, bytes.size() > header ? bytes.size() - header : 0);
}

}  // namespace mroce::rocev2
