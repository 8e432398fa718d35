"""AES-128-GCM with nonces of 12 and tags of 16 bytes (NIST SP 800-38D).

GHASH multiplies by one table for each of the 16 bytes of a block, made once for a key.
"""

import hmac
import struct

from .aes import BLOCK_BYTES, Aes128

NONCE_BYTES = 12
TAG_BYTES = 16
REDUCTION = 0xE1 << 120  # 1 + x + x^2 + x^7, the coefficient of x^0 in the highest bit
LENGTHS = struct.Struct("!QQ")


def _tables(h: int) -> list[list[int]]:
    """tables[i][b]: the product of H and the byte b at place i of a block."""
    powers = [h]  # H x^0 to H x^127
    for _ in range(127):
        last = powers[-1]
        powers.append(last >> 1 ^ (REDUCTION if last & 1 else 0))
    tables = []
    for i in range(BLOCK_BYTES):
        table = [0] * 256
        for bit in range(8):
            power, value = powers[8 * i + bit], 0x80 >> bit
            table[value] = power
        for byte in range(1, 256):
            lowest = byte & -byte
            table[byte] = table[lowest] ^ table[byte ^ lowest]
        tables.append(table)
    return tables


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % BLOCK_BYTES)


class Gcm:
    """One key. A nonce must not be used twice to seal."""

    def __init__(self, key: bytes) -> None:
        self.aes = Aes128(key)
        self.tables = _tables(int.from_bytes(self.aes.encrypt(bytes(BLOCK_BYTES)), "big"))

    def _ghash(self, data: bytes) -> int:
        y = bytes(BLOCK_BYTES)
        tables, total = self.tables, 0
        for at in range(0, len(data), BLOCK_BYTES):
            y = (total ^ int.from_bytes(data[at:at + BLOCK_BYTES], "big")).to_bytes(BLOCK_BYTES, "big")
            total = 0
            for table, byte in zip(tables, y):
                total ^= table[byte]
        return total

    def _key_stream(self, nonce: bytes, size: int) -> tuple[int, int]:
        """What is added to the tag, and the key stream for `size` bytes."""
        if len(nonce) != NONCE_BYTES:
            raise ValueError("a nonce has 12 bytes")
        count = 1 + (size + BLOCK_BYTES - 1) // BLOCK_BYTES
        stream = self.aes.encrypt(b"".join(nonce + i.to_bytes(4, "big") for i in range(1, count + 1)))
        return int.from_bytes(stream[:BLOCK_BYTES], "big"), int.from_bytes(stream[BLOCK_BYTES:BLOCK_BYTES + size], "big")

    def _tag(self, mask: int, aad: bytes, sealed: bytes) -> bytes:
        lengths = LENGTHS.pack(8 * len(aad), 8 * len(sealed))
        return (mask ^ self._ghash(_padded(aad) + _padded(sealed) + lengths)).to_bytes(TAG_BYTES, "big")

    def seal(self, nonce: bytes, aad: bytes, plain: bytes) -> bytes:
        """The ciphertext, and the tag behind it."""
        mask, stream = self._key_stream(nonce, len(plain))
        sealed = (int.from_bytes(plain, "big") ^ stream).to_bytes(len(plain), "big")
        return sealed + self._tag(mask, aad, sealed)

    def open(self, nonce: bytes, aad: bytes, sealed: bytes) -> bytes | None:
        """The plaintext of a ciphertext with its tag; None if they are not what was sealed."""
        if len(sealed) < TAG_BYTES:
            return None
        sealed, tag = sealed[:-TAG_BYTES], sealed[-TAG_BYTES:]
        mask, stream = self._key_stream(nonce, len(sealed))
        if not hmac.compare_digest(tag, self._tag(mask, aad, sealed)):
            return None
        return (int.from_bytes(sealed, "big") ^ stream).to_bytes(len(sealed), "big")
