"""UDP sockets around an endpoint: one receiving port, one socket to send by (§4.1, §7.1).

The slot is the first whose UDP port is free. Datagrams are never fragmented (§3.1); DATA leaves with ECT(0), and what
arrives with CE is reported to the endpoint.
"""

import random
import socket
import struct
import time

from .endpoint import Address, Endpoint, Limits
from .identity import Security
from .protection import UPDATE_AFTER

SLOTS = 256
ECN_MASK, ECT0, CE = 3, 2, 3
BATCH = 64
WANTED_BUFFER = 4 << 20
IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, PMTUDISC_PROBE = 10, 23, 3


class Responder:
    """The endpoint of one target, and its sockets; `start` makes both anew."""

    def __init__(self, address: str, base_port: int, key_update: int = UPDATE_AFTER) -> None:
        self.address, self.base_port, self.key_update = address, base_port, key_update
        self.family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.endpoint: Endpoint | None = None
        self.receiver: socket.socket | None = None
        self.sender: socket.socket | None = None

    @staticmethod
    def now() -> int:
        return time.monotonic_ns()

    def start(self, limits: Limits, seed: int | None, security: Security = Security()) -> Endpoint:
        self.end()
        slot = self._bind()
        assert self.receiver is not None
        self.sender = socket.socket(self.family, socket.SOCK_DGRAM)
        self.sender.bind((self.address, 0))
        self.sender.setblocking(False)
        self._forbid_fragments(self.sender)
        source = random.SystemRandom() if seed is None else random.Random(seed)
        buffer = self.receiver.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        self.endpoint = Endpoint(self.address, self.base_port + slot, slot, limits, source, buffer, security)
        return self.endpoint

    def _bind(self) -> int:
        for slot in range(SLOTS):
            receiver = socket.socket(self.family, socket.SOCK_DGRAM)
            try:
                receiver.bind((self.address, self.base_port + slot))
            except OSError:
                receiver.close()
                continue
            receiver.setblocking(False)
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, WANTED_BUFFER)
            if self.family == socket.AF_INET:
                receiver.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
            else:
                receiver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
            self.receiver = receiver
            return slot
        raise OSError(f"no UDP port from {self.base_port} to {self.base_port + SLOTS - 1} is free on {self.address}")

    def _forbid_fragments(self, sender: socket.socket) -> None:
        if self.family == socket.AF_INET:
            sender.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, PMTUDISC_PROBE)
        else:
            sender.setsockopt(socket.IPPROTO_IPV6, IPV6_MTU_DISCOVER, PMTUDISC_PROBE)

    def end(self) -> None:
        """Forget the endpoint without a word to its peers."""
        for one in (self.receiver, self.sender):
            if one is not None:
                one.close()
        self.endpoint = self.receiver = self.sender = None

    def receive(self) -> None:
        """Read what has arrived, at most a batch of it; what is answered at once leaves before the next is read."""
        for _ in range(BATCH):
            if self.receiver is None or self.endpoint is None:
                return
            try:
                raw, ancillary, _, source = self.receiver.recvmsg(65536, 64)
            except OSError:
                return
            self.endpoint.on_datagram(raw, source[:2], _is_ce(ancillary), self.now())
            self._flush()

    def step(self) -> float | None:
        """Timers and output; the seconds until it must be called again."""
        if self.endpoint is None:
            return None
        self.endpoint.poll(self.now())
        self._flush()
        now = self.now()
        deadline = self.endpoint.deadline(now)
        return None if deadline is None else max(0.0, (deadline - now) / 1e9)

    def _flush(self) -> None:
        assert self.endpoint is not None
        for out in self.endpoint.take():
            self._send(out.data, out.to, out.ect)

    def _send(self, data: bytes, to: Address, ect: bool) -> None:
        """What the kernel does not take is a lost datagram."""
        assert self.sender is not None
        tos = struct.pack("@i", ECT0 if ect else 0)
        if self.family == socket.AF_INET:
            ancillary = [(socket.IPPROTO_IP, socket.IP_TOS, tos)]
        else:
            ancillary = [(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, tos)]
        try:
            self.sender.sendmsg([data], ancillary, 0, to)
        except OSError:
            pass


def _is_ce(ancillary: list[tuple[int, int, bytes]]) -> bool:
    for level, kind, value in ancillary:
        if (level, kind) in ((socket.IPPROTO_IP, socket.IP_TOS), (socket.IPPROTO_IPV6, socket.IPV6_TCLASS)) and value:
            return value[0] & ECN_MASK == CE
    return False
