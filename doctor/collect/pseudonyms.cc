#include "doctor/collect/pseudonyms.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <vector>

namespace mroce::doctor {
namespace {

uint64_t little_endian(std::string_view bytes) {
  uint64_t word = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    word |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  return word;
}

struct SipState {
  uint64_t v0, v1, v2, v3;
  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void take(uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

bool all_equal(std::span<const uint8_t> bytes, uint8_t value) {
  return std::all_of(bytes.begin(), bytes.end(), [value](uint8_t b) { return b == value; });
}

}  // namespace

uint64_t siphash(const Key& key, std::string_view bytes) {
  SipState state{key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
                 key[1] ^ 0x7465646279746573u};
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) state.take(little_endian(bytes.substr(at, 8)));
  state.take(little_endian(bytes.substr(at)) | static_cast<uint64_t>(bytes.size()) << 56);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

Pseudonyms Pseudonyms::of_phrase(std::string_view phrase) {
  const uint64_t first = siphash({0, 0}, phrase);
  return Pseudonyms({first, siphash({first, 1}, phrase)});
}

Pseudonyms Pseudonyms::random() {
  Key key{};
  if (::getrandom(key.data(), sizeof key, 0) != sizeof key) throw std::runtime_error("no random numbers");
  return Pseudonyms(key);
}

std::string Pseudonyms::word(std::string_view kind, std::string_view original) {
  const uint64_t hash = siphash(key_, std::string(kind) + ":" + std::string(original));
  return fmt::format("{}-{:08x}", kind, hash >> 32);
}

std::string Pseudonyms::uuid(std::string_view original) {
  const uint64_t high = siphash(key_, "uuid:" + std::string(original));
  const uint64_t low = siphash(key_, fmt::format("uuid:{:x}", high));
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, high >> 16 & 0xffff, high & 0xffff,
                     low >> 48, low & 0xffff'ffff'ffff);
}

uint8_t Pseudonyms::permuted(std::string_view kind, std::span<const uint8_t> before, uint8_t byte) {
  std::string prefix(kind);
  prefix += ':';
  for (const uint8_t b : before) prefix += static_cast<char>(b);
  auto [found, added] = permutations_.try_emplace(prefix);
  if (added) {
    Permutation& table = found->second;
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<uint8_t>(i);
    for (size_t i = table.size(); i-- > 1;) {
      const uint64_t draw = siphash(key_, fmt::format("{}#{}", prefix, i));
      std::swap(table[i], table[draw % (i + 1)]);
    }
  }
  return found->second[byte];
}

void Pseudonyms::permute_from(std::string_view kind, std::span<uint8_t> bytes, size_t first) {
  const std::vector<uint8_t> original(bytes.begin(), bytes.end());
  for (size_t i = first; i < bytes.size(); ++i)
    bytes[i] = permuted(kind, std::span(original).first(i), original[i]);
}

void Pseudonyms::ipv4(std::span<uint8_t, 4> address) {
  const uint8_t a = address[0], b = address[1];
  if (a == 0 || a == 127 || a >= 224) return;  // unspecified, loopback, multicast, masks
  if (a == 10) return permute_from("ipv4", address, 1);
  if ((a == 192 && b == 168) || (a == 172 && b >= 16 && b < 32) || (a == 169 && b == 254))
    return permute_from("ipv4", address, 2);
  // A public address stays one: walk the permutation until it leaves the ranges with a meaning. As those are
  // closed under the walk, no two addresses meet.
  const auto special = [](uint8_t byte) {
    return byte == 0 || byte == 10 || byte == 127 || byte == 169 || byte == 172 || byte == 192 || byte >= 224;
  };
  const uint8_t first = address[0];
  uint8_t walked = first;
  if (!special(first)) {
    do walked = permuted("ipv4", {}, walked);
    while (special(walked));
  }
  permute_from("ipv4", address, 1);
  address[0] = walked;
}

void Pseudonyms::mac(std::span<uint8_t, 6> address) {
  if ((address[0] & 1) != 0 || all_equal(address, 0)) return;  // multicast, broadcast, none
  permute_from("mac", address, 3);
}

void Pseudonyms::guid(std::span<uint8_t, 8> guid) {
  if (all_equal(guid, 0) || all_equal(guid, 0xff)) return;
  if (guid[3] == 0xff && guid[4] == 0xfe) {  // made of a MAC address, with one bit turned
    std::array<uint8_t, 6> inner{
        static_cast<uint8_t>(guid[0] ^ 2), guid[1], guid[2], guid[5], guid[6], guid[7]};
    mac(inner);
    std::copy(inner.begin() + 3, inner.end(), guid.begin() + 5);
    return;
  }
  permute_from("guid", guid, 3);
}

void Pseudonyms::ipv6(std::span<uint8_t, 16> address) {
  const bool short_one = all_equal(address.first(15), 0);  // ::, ::1
  if (short_one || address[0] == 0xff) return;
  if (all_equal(address.first(10), 0) && address[10] == 0xff && address[11] == 0xff)
    return ipv4(address.last<4>());
  const bool link_local = address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
  if (!link_local) permute_from("ipv6", address.first(8), 1);
  guid(address.last<8>());
}

}  // namespace mroce::doctor
