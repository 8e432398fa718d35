// INIT and INIT_ACK: a fixed part, one entry for each port of the sender, with flag EXT TLVs up to END,
// padding.
#include <algorithm>

#include "core/base/assert.h"
#include "core/wire/codec.h"
#include "core/wire/tlv.h"

namespace mroce::wire {
namespace {

void decode_fixed(const std::byte* p, Init& out) {
  out.magic = get<at::init::magic>(p);
  out.version_min = get<at::init::version_min>(p);
  out.version_max = get<at::init::version_max>(p);
  out.security = get<at::init::security>(p);
  out.flags = get<at::init::flags>(p);
  out.scid = get<at::init::scid>(p);
  get_bytes<at::init::endpoint_id>(p, out.endpoint_id);
  get_bytes<at::init::reset_token>(p, out.reset_token);
  out.nonce = get<at::init::nonce>(p);
  out.listen_port = get<at::init::listen_port>(p);
  out.payload_mtu = get<at::init::payload_mtu>(p);
  out.max_paths = get<at::init::max_paths>(p);
  out.nports = get<at::init::nports>(p);
  out.max_streams = get<at::init::max_streams>(p);
  out.cpsn_window = get<at::init::cpsn_window>(p);
  out.first_cpsn = get<at::init::first_cpsn>(p);
  out.first_pseq = get<at::init::first_pseq>(p);
  out.receive_buffer = get<at::init::receive_buffer>(p);
  out.known_cid = get<at::init::known_cid>(p);
}

void encode_fixed(const Init& init, std::byte* out) {
  put<at::init::magic>(out, init.magic);
  put<at::init::version_min>(out, init.version_min);
  put<at::init::version_max>(out, init.version_max);
  put<at::init::security>(out, init.security);
  put<at::init::flags>(out, init.flags);
  put<at::init::scid>(out, init.scid);
  put_bytes<at::init::endpoint_id>(out, init.endpoint_id);
  put_bytes<at::init::reset_token>(out, init.reset_token);
  put<at::init::nonce>(out, init.nonce);
  put<at::init::listen_port>(out, init.listen_port);
  put<at::init::payload_mtu>(out, init.payload_mtu);
  put<at::init::max_paths>(out, init.max_paths);
  put<at::init::nports>(out, init.nports);
  put<at::init::max_streams>(out, init.max_streams);
  put<at::init::cpsn_window>(out, init.cpsn_window);
  put<at::init::first_cpsn>(out, init.first_cpsn);
  put<at::init::first_pseq>(out, init.first_pseq);
  put<at::init::receive_buffer>(out, init.receive_buffer);
  put<at::init::known_cid>(out, init.known_cid);
}

size_t end_of_ports(size_t nports) {
  return end_of::init + nports * kInitPortBytes;
}

bool take_key_share(In value, Init& out) {
  if (value.size() != end_of::key_share || out.has_key_share) return false;
  out.has_key_share = true;
  get_bytes<at::key_share::public_key>(value.data(), out.key_share.public_key);
  get_bytes<at::key_share::key_id>(value.data(), out.key_share.key_id);
  return true;
}

bool take_cookie(In value, Init& out) {
  if (value.empty() || value.size() > kMaxCookieBytes || out.cookie.length != 0) return false;
  out.cookie.length = static_cast<uint8_t>(value.size());
  std::memcpy(out.cookie.bytes.data(), value.data(), value.size());
  return true;
}

bool take_tlvs(In rest, Init& out) {
  for (;;) {
    const auto tlv = next_tlv(rest);
    if (!tlv) return false;
    if (tlv->type == Tlv::kEnd) return tlv->value.empty();
    if (tlv->type == Tlv::kKeyShare && !take_key_share(tlv->value, out)) return false;
    if (tlv->type == Tlv::kCookie && !take_cookie(tlv->value, out)) return false;
  }
}

std::byte* begin_tlv(std::byte*& cursor, Tlv type, size_t length) {
  put<at::tlv::type>(cursor, static_cast<uint8_t>(type));
  put<at::tlv::length>(cursor, static_cast<uint8_t>(length));
  std::byte* const value = cursor + end_of::tlv;
  cursor = value + length;
  return value;
}

size_t tlv_bytes(const Init& init) {
  return (init.has_key_share ? end_of::tlv + end_of::key_share : 0) +
         (init.cookie.length != 0 ? end_of::tlv + init.cookie.length : 0) + end_of::tlv;
}

void encode_tlvs(const Init& init, std::byte* cursor) {
  if (init.has_key_share) {
    std::byte* const value = begin_tlv(cursor, Tlv::kKeyShare, end_of::key_share);
    put_bytes<at::key_share::public_key>(value, init.key_share.public_key);
    put_bytes<at::key_share::key_id>(value, init.key_share.key_id);
  }
  if (init.cookie.length != 0) {
    std::memcpy(begin_tlv(cursor, Tlv::kCookie, init.cookie.length), init.cookie.bytes.data(),
                init.cookie.length);
  }
  begin_tlv(cursor, Tlv::kEnd, 0);
}

bool has_tlvs(const std::byte* datagram) {
  return (get<at::common::flags>(datagram) & flag::kExtension) != 0;
}

}  // namespace

bool decode_init(In datagram, Init& out) {
  if (datagram.size() < end_of::init) return false;
  decode_fixed(datagram.data(), out);
  out.has_key_share = false;
  out.cookie = {};
  if (out.magic != kMagic) {
    out.nports = 0;
    return true;
  }
  if (out.nports == 0 || out.nports > kMaxPlanes) return false;
  if (datagram.size() < end_of_ports(out.nports)) return false;
  for (size_t i = 0; i < out.nports; ++i) {
    const std::byte* p = datagram.data() + end_of::init + i * kInitPortBytes;
    InitPort& port = out.ports[i];
    get_bytes<at::init_port::address>(p, port.address.raw);
    port.prefix_bits = get<at::init_port::prefix_bits>(p);
    port.rate_mbps = get<at::init_port::rate_mbps>(p);
    if (port.prefix_bits > at::init_port::address.bits) return false;
  }
  return !has_tlvs(datagram.data()) || take_tlvs(datagram.subspan(end_of_ports(out.nports)), out);
}

size_t encode_init(const Common& header, const Init& init, size_t pad_to, Out out) {
  MROCE_ASSERT(init.nports >= 1 && init.nports <= kMaxPlanes);
  MROCE_ASSERT(init.cookie.length <= kMaxCookieBytes);
  Common extended = header;
  if (init.has_key_share || init.cookie.length != 0) extended.flags |= flag::kExtension;
  const size_t tlvs = (extended.flags & flag::kExtension) != 0 ? tlv_bytes(init) : 0;
  const size_t filled = end_of_ports(init.nports) + tlvs;
  const size_t bytes = std::max(filled, pad_to);
  if (out.size() < bytes) return 0;
  encode_common(extended, out.data());
  encode_fixed(init, out.data());
  for (size_t i = 0; i < init.nports; ++i) {
    std::byte* const p = out.data() + end_of::init + i * kInitPortBytes;
    put_bytes<at::init_port::address>(p, init.ports[i].address.raw);
    put<at::init_port::prefix_bits>(p, init.ports[i].prefix_bits);
    put<at::init_port::rate_mbps>(p, init.ports[i].rate_mbps);
  }
  if (tlvs != 0) encode_tlvs(init, out.data() + end_of_ports(init.nports));
  std::fill(out.data() + filled, out.data() + bytes, std::byte{0});
  return bytes;
}

std::vector<std::byte> init_transcript(In datagram) {
  MROCE_ASSERT(datagram.size() >= end_of::init);
  const size_t ports_end = end_of_ports(get<at::init::nports>(datagram.data()));
  MROCE_ASSERT(datagram.size() >= ports_end);
  std::vector<std::byte> out(datagram.begin() + kCommonBytes,
                             datagram.begin() + static_cast<ptrdiff_t>(ports_end));
  put<Field{at::init::payload_mtu.offset - kCommonBytes, at::init::payload_mtu.bits}>(out.data(), 0);
  In rest = has_tlvs(datagram.data()) ? datagram.subspan(ports_end) : In{};
  while (!rest.empty()) {
    const In before = rest;
    const auto tlv = next_tlv(rest);
    MROCE_ASSERT(tlv.has_value());
    const In whole = before.first(before.size() - rest.size());
    if (tlv->type != Tlv::kCookie) out.insert(out.end(), whole.begin(), whole.end());
    if (tlv->type == Tlv::kEnd) break;
  }
  return out;
}

}  // namespace mroce::wire
