"""A queue pair of the small peer: states, posted receives, completions, and its two halves."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .receiving_half import ReceivingHalf
    from .sending_half import SendingHalf

ALL_ACCESS = frozenset({"local_write", "remote_write", "remote_read", "remote_atomic"})
SUCCESS = "SUCCESS"
FLUSHED = "WR_FLUSH_ERR"


@dataclass
class Receive:
    """A posted receive: one piece of a region."""

    wr_id: int
    region: int
    offset: int
    length: int


@dataclass
class QueuePair:
    number: int
    qpn: int
    max_send_wr: int
    max_recv_wr: int
    state: str = "reset"
    remote_address: bytes = bytes(16)
    remote_qpn: int = 0
    sq_psn: int = 0
    rq_psn: int = 0
    timeout: int = 14
    retry_cnt: int = 7
    rnr_retry: int = 7
    min_rnr_timer: int = 12
    rd_atomic: int = 16
    access: frozenset[str] = ALL_ACCESS
    receives: deque[Receive] = field(default_factory=deque)
    completions: deque[dict] = field(default_factory=deque)
    receiving: ReceivingHalf | None = None
    sending: SendingHalf | None = None

    @property
    def stream(self) -> int:
        return self.qpn & 0xFFFF

    def complete(self, wr_id: int, queue: str, status: str, opcode: str, size: int = 0, imm: int | None = None) -> None:
        entry = {"wr_id": wr_id, "queue": queue, "status": status, "opcode": opcode, "bytes": size}
        if imm is not None:
            entry["imm"] = imm
        self.completions.append(entry)

    def complete_receive(self, status: str, opcode: str = "RECV", size: int = 0, imm: int | None = None) -> None:
        self.complete(self.receives.popleft().wr_id, "recv", status, opcode, size, imm)

    def flush_receives(self) -> None:
        while self.receives:
            self.complete_receive(FLUSHED)
