// Names and addresses replaced by others, always the same ones for the same key.
//
// Words (hosts, users, serial numbers) become "host-" and eight digits of a keyed hash (SipHash-2-4, Aumasson
// and Bernstein 2012). Addresses keep what analysis needs: two addresses have the same number of leading
// bytes in common after as before (the idea of Crypto-PAn, Xu et al. 2002), as each byte goes through a
// permutation of its own that depends on the key and on all bytes before it. So subnets stay subnets, no two
// addresses fall together, and private, link-local and multicast ranges stay what they are. An IPv4 address
// within a GID, and a MAC address within one, get the replacement that they get when they stand alone. The
// first three bytes of a MAC address, which say who made the adapter, are kept.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace mroce::doctor {

using Key = std::array<uint64_t, 2>;
uint64_t siphash(const Key& key, std::string_view bytes);

class Pseudonyms {
 public:
  explicit Pseudonyms(const Key& key) : key_(key) {}
  static Pseudonyms of_phrase(std::string_view phrase);  // the same in every run
  static Pseudonyms random();                            // the same in this one only

  std::string word(std::string_view kind, std::string_view original);  // "host", "nodeA" → "host-1f00c2aa"
  std::string uuid(std::string_view original);
  void ipv4(std::span<uint8_t, 4> address);
  void ipv6(std::span<uint8_t, 16> address);
  void mac(std::span<uint8_t, 6> address);
  void guid(std::span<uint8_t, 8> guid);

 private:
  using Permutation = std::array<uint8_t, 256>;
  uint8_t permuted(std::string_view kind, std::span<const uint8_t> before, uint8_t byte);
  void permute_from(std::string_view kind, std::span<uint8_t> bytes, size_t first);

  Key key_;
  std::map<std::string, Permutation> permutations_;
};

}  // namespace mroce::doctor
