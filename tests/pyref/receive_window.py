"""What a receiver remembers: of CPSNs (§5.3), and of each path (§5.4)."""

from dataclasses import dataclass

from .packets import PathBlock
from .numbers import MASK32
from .small_codings import encode_ack_delay

VECTOR_BITS = 256
VECTOR_MASK = (1 << VECTOR_BITS) - 1
PSEQ_RANGE = 65536
REPEATS = 2  # further ACKs that repeat a report, §5.6


class CpsnWindow:
    """The base and the set of CPSNs above it that are accepted."""

    def __init__(self, first: int, window: int) -> None:
        self.base = first
        self.window = window
        self.accepted: set[int] = set()
        self.highest = first  # one above the highest CPSN seen

    @property
    def limit(self) -> int:
        return self.base + self.window

    def in_range(self, cpsn: int) -> bool:
        """Check 10 of §3.13."""
        return self.base - 2 * self.window - (1 << 20) <= cpsn < self.limit

    def is_duplicate(self, cpsn: int) -> bool:
        return cpsn < self.base or cpsn in self.accepted

    def accept(self, cpsn: int) -> None:
        self.accepted.add(cpsn)
        while self.base in self.accepted:
            self.accepted.remove(self.base)
            self.base += 1


@dataclass
class ReceivedPath:
    """The record of a path of the peer."""

    path: int
    largest: int | None = None
    vector: int = 0
    rx_count: int = 0
    ce_count: int = 0
    ts: int = 0
    arrival: int = 0
    news: bool = False
    repeats: int = 0

    def in_range(self, pseq: int, first: int) -> bool:
        """Check 9 of §3.13."""
        if self.largest is None:
            return first <= pseq <= first + PSEQ_RANGE
        return abs(pseq - self.largest) <= PSEQ_RANGE

    def arrive(self, pseq: int, first: int, ts: int, now: int, ce: bool) -> bool:
        """Count a datagram; true if it left a gap below it, or came at or below LARGEST within the vector."""
        self.rx_count += 1
        self.ce_count += ce
        self.news, self.repeats = True, REPEATS
        before = first - 1 if self.largest is None else self.largest
        if pseq > before:
            self.vector = self.vector << (pseq - before) & VECTOR_MASK
            self.largest, self.ts, self.arrival = pseq, ts, now
            return pseq > before + 1
        return before - pseq < VECTOR_BITS

    def mark(self, pseq: int) -> None:
        """Set the bit of a PSEQ whose packet was accepted or a duplicate."""
        assert self.largest is not None
        if self.largest - pseq < VECTOR_BITS:
            self.vector |= 1 << (self.largest - pseq)

    def block(self, now: int) -> PathBlock:
        assert self.largest is not None
        return PathBlock(self.path, 0, self.largest & MASK32, self.vector, self.rx_count & MASK32,
                         self.ce_count & MASK32, self.ts, encode_ack_delay(now - self.arrival))
