"""Small codings of §3.11, the ACK delay of §5.6, and addresses (§3.10)."""

from ipaddress import ip_address

RATE_NONE = 0
RATE_UNLIMITED = 0xFFFF
RATE_MOST = 0xFFFE


def encode_rate(bytes_per_second: int | None) -> int:
    """16-bit code of a rate; None stands for unlimited, 0 for none."""
    if bytes_per_second is None:
        return RATE_UNLIMITED
    exponent = max(0, bytes_per_second.bit_length() - 11)
    if exponent > 31:
        return RATE_MOST
    return min(exponent << 11 | bytes_per_second >> exponent, RATE_MOST)


def decode_rate(code: int) -> int | None:
    """Bytes per second; None is unlimited, 0 is none."""
    if code == RATE_UNLIMITED:
        return None
    return (code & 0x7FF) << (code >> 11)


def decode_backlog(code: int) -> int:
    """Packets that a backlog code stands for."""
    if code <= 15:
        return code
    return (8 + code % 8) << (code // 8 - 1)


def encode_backlog(packets: int) -> int:
    """The largest code whose value does not exceed `packets`."""
    if packets <= 15:
        return packets
    exponent = packets.bit_length() - 4
    return min(255, (exponent + 1) * 8 + (packets >> exponent) - 8)


def encode_ack_delay(nanoseconds: int) -> int:
    """Units of 64 ns, at most 65535."""
    return max(0, min(nanoseconds // 64, 0xFFFF))


def ts_of(now_ns: int) -> int:
    """The TS field: units of 16 ns, modulo 2^32 (§3.2)."""
    return now_ns // 16 & 0xFFFFFFFF


def wire_address(text: str) -> bytes:
    """The 16 bytes of an address (§3.10)."""
    address = ip_address(text.split("%")[0])
    return address.packed if address.version == 6 else bytes(10) + b"\xff\xff" + address.packed


def text_address(wire: bytes) -> str:
    address = ip_address(wire)
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
