"""CRC-32C (Castagnoli), the trailer of mode 0 (§3.12): reflected polynomial 0x82f63b78, initial value and final
inversion 0xffffffff. One table of 256 entries, one look-up for each byte."""

POLYNOMIAL = 0x82F63B78


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (POLYNOMIAL if byte & 1 else 0)
    return byte


TABLE = tuple(_entry(byte) for byte in range(256))


def crc32c(data: bytes) -> int:
    """The check value of `data`."""
    table = TABLE
    crc = 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def seal(data: bytes) -> bytes:
    """The datagram with its trailer."""
    return data + crc32c(data).to_bytes(4, "big")
