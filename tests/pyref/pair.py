"""Two endpoints of this implementation in memory and virtual time, for tests; what lies between them is the test's."""

import heapq
import random
from typing import Callable

from .endpoint import Address, Endpoint, Limits
from .identity import Security
from .memory import Region
from .queue_pair import QueuePair, Receive
from .small_codings import wire_address
from .work_request import OPCODES, WorkRequest

DELAY = 100_000
STEP = 1_000_000
PSN = 0x1234
Tamper = Callable[[int, bytes], list[bytes]]  # the sender's number and a datagram; what arrives


def straight(_: int, raw: bytes) -> list[bytes]:
    return [raw]


class Pair:
    """Endpoints 0 and 1 on 127.0.0.1 and 127.0.0.2; everything that was sent stays in `sent`."""

    def __init__(self, security: Security, other: Security | None = None, key_update: int = 1 << 23,
                 tamper: Tamper = straight) -> None:
        self.now, self.tamper, self.serial = 10**12, tamper, 0
        limits = Limits(max_payload=1024, key_update=key_update)
        self.ends = [Endpoint(f"127.0.0.{i + 1}", 61440, 0, limits, random.Random(i), 1 << 20, policy)
                     for i, policy in enumerate((security, other or security))]
        self.sources: list[Address] = [("127.0.0.1", 50000), ("127.0.0.2", 50000)]
        self.flying: list[tuple[int, int, int, bytes]] = []
        self.sent: list[tuple[int, bytes]] = []
        self.regions: list[Region] = []
        self.qps: list[QueuePair] = []
        for endpoint in self.ends:
            self.regions.append(endpoint.memory.create(1 << 14, {"local_write", "remote_write", "remote_read"}))
            self.qps.append(endpoint.create_qp(1000, 1000))
        for i, qp in enumerate(self.qps):
            qp.remote_address, qp.remote_qpn = wire_address(self.ends[1 - i].address), self.qps[1 - i].qpn
            qp.sq_psn = qp.rq_psn = PSN
            qp.state = "rts"

    def inject(self, to: int, raw: bytes) -> None:
        """A datagram from anywhere arrives now."""
        self.ends[to].on_datagram(raw, self.sources[1 - to], False, self.now)

    def _send(self) -> None:
        for number, endpoint in enumerate(self.ends):
            endpoint.poll(self.now)
            for out in endpoint.take():
                self.sent.append((number, out.data))
                for raw in self.tamper(number, out.data):
                    self.serial += 1
                    heapq.heappush(self.flying, (self.now + DELAY, self.serial, 1 - number, raw))

    def run(self, nanoseconds: int) -> None:
        """Everything that happens within that time."""
        end = self.now + nanoseconds
        while self.now < end:
            self._send()
            times = [t for t in (self.flying[0][0] if self.flying else None, *(e.deadline(self.now) for e in self.ends))
                     if t is not None]
            self.now = min([end, *times, self.now + STEP])
            while self.flying and self.flying[0][0] <= self.now:
                _, _, to, raw = heapq.heappop(self.flying)
                self.inject(to, raw)

    def write(self, number: int, content: bytes) -> None:
        """A WRITE of an endpoint into the other's region, from and to the beginning."""
        qp, region, target = self.qps[number], self.regions[number], self.regions[1 - number]
        assert qp.sending is not None
        region.data[:len(content)] = content
        qp.sending.requests.append(WorkRequest(len(content), OPCODES["write"], region.number, 0, len(content), target.addr,
                                               target.key))

    def receive(self, number: int) -> None:
        self.qps[number].receives.append(Receive(0, self.regions[number].number, 0, 1 << 14))

    def statuses(self, number: int) -> list[str]:
        return [entry["status"] for entry in self.qps[number].completions]
