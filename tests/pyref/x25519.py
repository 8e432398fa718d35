"""X25519 (RFC 7748 §5): the Montgomery ladder over GF(2^255 - 19).

Python's integers take no constant time, so this is for tests on one's own machine and for nothing else.
"""

P = (1 << 255) - 19
A24 = 121665
KEY_BYTES = 32
BASE_POINT = (9).to_bytes(KEY_BYTES, "little")


def _scalar(private: bytes) -> int:
    """Three low bits and the highest are cleared, the second highest is set."""
    number = int.from_bytes(private, "little")
    return number & ~7 & ((1 << 254) - 1) | 1 << 254


def _ladder(k: int, u: int) -> tuple[int, int]:
    """The u coordinate of k times the point, as a fraction."""
    x2, z2, x3, z3, swap = 1, 0, u, 1, 0
    for t in reversed(range(255)):
        bit = k >> t & 1
        if bit != swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % P, b * b % P, d * a, c * b
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % P, u * ((da - cb) ** 2 % P) % P
        x2, z2 = aa * bb % P, e * (aa + A24 * e) % P
    return (x3, z3) if swap else (x2, z2)


def x25519(private: bytes, public: bytes) -> bytes:
    """The function X25519(k, u). All zero means that `public` is a point of small order."""
    if len(private) != KEY_BYTES or len(public) != KEY_BYTES:
        raise ValueError("keys of X25519 have 32 bytes")
    u = int.from_bytes(public, "little") & ((1 << 255) - 1)
    x, z = _ladder(_scalar(private), u)
    return (x * pow(z, P - 2, P) % P).to_bytes(KEY_BYTES, "little")


def public_key(private: bytes) -> bytes:
    return x25519(private, BASE_POINT)
