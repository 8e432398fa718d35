// SHA-256 (FIPS 180-4), HMAC-SHA-256 (RFC 2104) and HKDF-SHA-256 (RFC 5869), by OpenSSL's libcrypto.
//
// They are used when connections begin and when keys change, never for a packet, so that plain one-shot
// functions are enough. None of them can fail but for lack of memory or a broken libcrypto, which ends the
// process.
#pragma once

#include <initializer_list>

#include "core/crypto/bytes.h"

namespace mroce::crypto {

// Of the parts, one behind the other.
Key32 sha256(std::initializer_list<Bytes> parts);
Key32 hmac_sha256(Bytes key, std::initializer_list<Bytes> parts);

Key32 hkdf_extract(Bytes salt, Bytes secret);
// Fills `out`, at most 255 x 32 bytes.
void hkdf_expand(Bytes pseudo_random_key, std::initializer_list<Bytes> info, std::span<uint8_t> out);

// Takes the same time wherever the first difference is. Arrays of different size differ.
bool same_in_constant_time(Bytes a, Bytes b);

}  // namespace mroce::crypto
