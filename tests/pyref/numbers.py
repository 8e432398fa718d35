"""Arithmetic of sequence numbers that the wire carries in 32 bits (§2.4).

CPSN, PSEQ, MSN and RQSN are unbounded counters in both ends. The wire has their low 32 bits, and a receiver takes
the full number that is nearest to one that it expects. Credits and incarnations stay at 32 bits and are compared
serially.
"""

MASK32 = 0xFFFFFFFF
HALF = 1 << 31
WHOLE = 1 << 32


def expand(wire: int, expected: int) -> int:
    """The full number nearest to `expected` whose low 32 bits are `wire`."""
    candidate = (expected & ~MASK32) | wire
    if candidate - expected > HALF and candidate >= WHOLE:
        candidate -= WHOLE
    if candidate - expected < -HALF:
        candidate += WHOLE
    return candidate


def later(a: int, b: int) -> bool:
    """Whether the 32-bit number `a` is serially later than `b`."""
    difference = (a - b) & MASK32
    return 0 < difference < HALF
