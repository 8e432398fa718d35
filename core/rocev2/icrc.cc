#include "core/rocev2/icrc.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace mroce::rocev2 {
namespace {

constexpr size_t kLrh = 8;
constexpr size_t kIpv4 = 20;
constexpr size_t kIpv6 = 40;
constexpr size_t kUdp = 8;
constexpr size_t kBth = 12;

constexpr std::byte kOnes{0xff};
constexpr std::byte kUdpProtocol{17};

// Length of the IP header, 0 if it is none that RoCEv2 may have.
size_t ip_header(std::span<const std::byte> in) {
  if (in.empty()) return 0;
  const auto version = static_cast<uint8_t>(in[0]);
  if (version == 0x45 && in.size() >= kIpv4 + kUdp + kBth && in[9] == kUdpProtocol) return kIpv4;
  if ((version >> 4) == 6 && in.size() >= kIpv6 + kUdp + kBth && in[6] == kUdpProtocol) return kIpv6;
  return 0;
}

void mask_ip(std::byte* ip, size_t length) {
  if (length == kIpv4) {
    ip[1] = ip[8] = ip[10] = ip[11] = kOnes;
  } else {
    ip[0] |= std::byte{0x0f};
    ip[1] = ip[2] = ip[3] = ip[7] = kOnes;
  }
}

}  // namespace

uint32_t icrc_update(uint32_t state, std::span<const std::byte> bytes) {
  return crc32_gzip_refl(state, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

std::optional<uint32_t> icrc_begin(std::span<const std::byte> headers) {
  const size_t ip = ip_header(headers);
  if (ip == 0) return std::nullopt;
  const size_t masked = ip + kUdp + kBth;
  std::array<std::byte, kLrh + kIpv6 + kUdp + kBth> copy;
  std::fill_n(copy.begin(), kLrh, kOnes);
  std::byte* at = copy.data() + kLrh;
  std::memcpy(at, headers.data(), masked);
  mask_ip(at, ip);
  at[ip + 6] = at[ip + 7] = kOnes;  // UDP checksum
  at[ip + kUdp + 4] = kOnes;        // FECN, BECN, reserved
  const uint32_t state = icrc_update(0, {copy.data(), kLrh + masked});
  return icrc_update(state, headers.subspan(masked));
}

std::optional<uint32_t> icrc(std::span<const std::byte> datagram) {
  return icrc_begin(datagram);
}

void write_icrc(uint32_t crc, std::byte* out) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<std::byte>(crc >> (8 * i));
}

bool check_icrc(std::span<const std::byte> datagram) {
  if (datagram.size() < 4) return false;
  const auto body = datagram.first(datagram.size() - 4);
  const auto crc = icrc(body);
  if (!crc) return false;
  std::array<std::byte, 4> expected;
  write_icrc(*crc, expected.data());
  return std::memcmp(expected.data(), body.data() + body.size(), 4) == 0;
}

}  // namespace mroce::rocev2
