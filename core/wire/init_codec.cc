// INIT and INIT_ACK: a fixed part, one entry for each port of the sender, padding.
#include <algorithm>

#include "core/base/assert.h"
#include "core/wire/codec.h"

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

}  // namespace

bool decode_init(In datagram, Init& out) {
  if (datagram.size() < end_of::init) return false;
  decode_fixed(datagram.data(), out);
  if (out.magic != kMagic) {
    out.nports = 0;
    return true;
  }
  if (out.nports == 0 || out.nports > kMaxPlanes) return false;
  if (datagram.size() < end_of::init + out.nports * kInitPortBytes) return false;
  for (size_t i = 0; i < out.nports; ++i) {
    const std::byte* p = datagram.data() + end_of::init + i * kInitPortBytes;
    InitPort& port = out.ports[i];
    get_bytes<at::init_port::address>(p, port.address.raw);
    port.prefix_bits = get<at::init_port::prefix_bits>(p);
    port.rate_mbps = get<at::init_port::rate_mbps>(p);
    if (port.prefix_bits > at::init_port::address.bits) return false;
  }
  return true;
}

size_t encode_init(const Common& header, const Init& init, size_t pad_to, Out out) {
  MROCE_ASSERT(init.nports >= 1 && init.nports <= kMaxPlanes);
  const size_t filled = end_of::init + init.nports * kInitPortBytes;
  const size_t bytes = std::max(filled, pad_to);
  if (out.size() < bytes) return 0;
  encode_common(header, out.data());
  encode_fixed(init, out.data());
  for (size_t i = 0; i < init.nports; ++i) {
    std::byte* const p = out.data() + end_of::init + i * kInitPortBytes;
    put_bytes<at::init_port::address>(p, init.ports[i].address.raw);
    put<at::init_port::prefix_bits>(p, init.ports[i].prefix_bits);
    put<at::init_port::rate_mbps>(p, init.ports[i].rate_mbps);
  }
  std::fill(out.data() + filled, out.data() + bytes, std::byte{0});
  return bytes;
}

}  // namespace mroce::wire
