"""HKDF with SHA-256 (RFC 5869)."""

import hashlib
import hmac

HASH_BYTES = 32


def extract(salt: bytes, material: bytes) -> bytes:
    return hmac.digest(salt, material, hashlib.sha256)


def expand(prk: bytes, info: bytes, size: int) -> bytes:
    """The first `size` bytes of T(1) | T(2) | …, T(i) = HMAC(prk, T(i-1) | info | i)."""
    out = block = b""
    counter = 1
    while len(out) < size:
        block = hmac.digest(prk, block + info + bytes((counter,)), hashlib.sha256)
        out += block
        counter += 1
    return out[:size]
