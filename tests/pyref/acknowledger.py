"""When an ACK is due (§5.5) and what it says (§5.6)."""

from typing import Callable

from .codepoints import MAX_BLOCKS, MAX_CREDITS, MAX_NAKS
from .numbers import MASK32
from .packets import Ack, CreditTlv, NakTlv, PathBlock
from .receive_window import CpsnWindow, ReceivedPath

ACK_EVERY = 16
ACK_DELAY = 50_000
ACK_REQUEST_DELAY = 2_000
BURST_ACK = 8


class Acknowledger:
    """Collects what the next ACK of a connection must say. `credit_of` turns a stream number into its TLV."""

    def __init__(self, window: CpsnWindow, credit_of: Callable[[int], CreditTlv | None]) -> None:
        self.window = window
        self.credit_of = credit_of
        self.paths: dict[int, ReceivedPath] = {}
        self.due: int | None = None
        self.unacknowledged = 0
        self.naks: list[NakTlv] = []
        self.credits: dict[int, bool] = {}  # stream numbers with news, in order

    def path(self, number: int) -> ReceivedPath:
        return self.paths.setdefault(number, ReceivedPath(number))

    def by(self, due: int) -> None:
        """An ACK is due at that time or earlier."""
        self.due = due if self.due is None else min(self.due, due)

    def arrived(self, now: int, urgent: bool, requested: bool, ce: bool) -> None:
        """A DATA datagram was counted; `urgent` if it left a gap, came late or was a duplicate."""
        self.unacknowledged += 1
        if urgent or self.unacknowledged >= ACK_EVERY or (ce and self.unacknowledged >= 2):
            self.by(now)
        else:
            self.by(now + (ACK_REQUEST_DELAY if requested else ACK_DELAY))

    def nak(self, now: int, cpsn: int, code: int, arg: int) -> None:
        """Those beyond what an ACK holds are forgotten: the packets will be rejected again."""
        if len(self.naks) < MAX_NAKS:
            self.naks.append(NakTlv(cpsn & MASK32, code, arg))
        self.by(now)

    def credit(self, stream: int) -> None:
        """The next ACK tells the credits of the stream."""
        self.credits[stream] = True

    def report_all(self, now: int) -> None:
        """The answer to a PROBE with AR: blocks of all paths ever seen."""
        for path in self.paths.values():
            path.news = path.largest is not None
        self.by(now)

    def _blocks(self, now: int) -> list[PathBlock]:
        seen = [path for path in self.paths.values() if path.largest is not None]
        fresh = [path for path in seen if path.news][:MAX_BLOCKS]
        repeated = [path for path in seen if not path.news and path.repeats > 0][:MAX_BLOCKS - len(fresh)]
        for path in fresh:
            path.news = False
        for path in repeated:
            path.repeats -= 1
        return [path.block(now) for path in fresh + repeated]

    def build(self, now: int) -> list[Ack]:
        """The ACKs that are due now, one after the other if one does not hold everything."""
        acks = []
        while self.due is not None and self.due <= now:
            ack = Ack(self.window.base & MASK32, self.window.limit & MASK32, 0, self._blocks(now), self.naks)
            named, self.naks = list(self.credits)[:MAX_CREDITS], []
            for stream in named:
                del self.credits[stream]
            ack.credits = [tlv for tlv in map(self.credit_of, named) if tlv is not None]
            acks.append(ack)
            more = self.credits or any(path.news for path in self.paths.values())
            self.due, self.unacknowledged = (now if more else None), 0
        return acks
