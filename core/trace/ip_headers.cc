#include "core/trace/ip_headers.h"

namespace mroce::trace {
namespace {

// A running sum over 16-bit words.
class Checksum {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) {
      sum_ += odd_ ? std::to_integer<uint32_t>(b) : std::to_integer<uint32_t>(b) << 8;
      odd_ = !odd_;
    }
  }
  void add_word(uint32_t word) { sum_ += word; }
  uint16_t value() const {
    uint64_t sum = sum_;
    while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<uint16_t>(~sum);
  }

 private:
  uint64_t sum_ = 0;
  bool odd_ = false;
};

void append_ipv4(Bytes& out, const IpHeader& ip) {
  const size_t begin = out.size();
  out.push_back(std::byte{0x45});
  out.push_back(std::byte{ip.traffic_class});
  append_be16(out, 20 + ip.length);
  append_be16(out, 0);       // identification
  append_be16(out, 0x4000);  // DF
  out.push_back(std::byte{ip.hop_limit});
  out.push_back(std::byte{ip.protocol});
  append_be16(out, 0);
  append_raw(out, ip.source.data(), ip.source.size());
  append_raw(out, ip.destination.data(), ip.destination.size());
  Checksum checksum;
  checksum.add(std::span(out).subspan(begin));
  put_be16(out, begin + 10, checksum.value());
}

void append_ipv6(Bytes& out, const IpHeader& ip) {
  out.push_back(static_cast<std::byte>(0x60 | ip.traffic_class >> 4));
  out.push_back(static_cast<std::byte>(ip.traffic_class << 4));
  append_be16(out, 0);  // flow label
  append_be16(out, ip.length);
  out.push_back(std::byte{ip.protocol});
  out.push_back(std::byte{ip.hop_limit});
  append_raw(out, ip.source.data(), ip.source.size());
  append_raw(out, ip.destination.data(), ip.destination.size());
}

}  // namespace

void append_raw(Bytes& out, const void* data, size_t length) {
  const auto* bytes = static_cast<const std::byte*>(data);
  out.insert(out.end(), bytes, bytes + length);
}

void append_be16(Bytes& out, uint32_t value) {
  out.push_back(static_cast<std::byte>(value >> 8));
  out.push_back(static_cast<std::byte>(value));
}

void append_be32(Bytes& out, uint32_t value) {
  append_be16(out, value >> 16);
  append_be16(out, value);
}

void put_be16(Bytes& out, size_t at, uint16_t value) {
  out[at] = static_cast<std::byte>(value >> 8);
  out[at + 1] = static_cast<std::byte>(value);
}

void append_ip(Bytes& out, const IpHeader& ip) {
  if (ip.source.size() == 4) return append_ipv4(out, ip);
  append_ipv6(out, ip);
}

uint16_t transport_checksum(const IpHeader& ip, std::span<const std::byte> segment) {
  Checksum checksum;
  checksum.add(ip.source);
  checksum.add(ip.destination);
  checksum.add_word(ip.protocol);
  checksum.add_word(ip.length);
  checksum.add(segment);
  return checksum.value();
}

}  // namespace mroce::trace
