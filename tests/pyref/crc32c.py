"""CRC-32C (Castagnoli), the trailer of mode 0 (§3.12): reflected polynomial 0x82f63b78, initial value and final
inversion 0xffffffff. Four bytes at a time, by two tables of 65,536 entries, since an INIT has a thousand bytes and more."""

import struct

POLYNOMIAL = 0x82F63B78


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (POLYNOMIAL if byte & 1 else 0)
    return byte


def _behind(table: list[int]) -> list[int]:
    """The table for a byte with one more byte of zero behind it."""
    return [TABLE[entry & 0xFF] ^ entry >> 8 for entry in table]


def _pair(first: list[int], second: list[int]) -> list[int]:
    return [high ^ low for high in second for low in first]


TABLE = [_entry(byte) for byte in range(256)]
ONE = _behind(TABLE)
TWO = _behind(ONE)
LOW, HIGH = _pair(_behind(TWO), TWO), _pair(ONE, TABLE)


def crc32c(data: bytes) -> int:
    """The check value of `data`."""
    low, high, crc = LOW, HIGH, 0xFFFFFFFF
    whole = len(data) // 4
    for word in struct.unpack_from(f"<{whole}I", data):
        word ^= crc
        crc = low[word & 0xFFFF] ^ high[word >> 16]
    for byte in data[4 * whole:]:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def seal(data: bytes) -> bytes:
    """The datagram with its trailer."""
    return data + crc32c(data).to_bytes(4, "big")
