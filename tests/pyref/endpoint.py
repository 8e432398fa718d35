"""An endpoint of the small peer: its connections and queue pairs (§2.1, §4). It has no socket and no clock.

A driver calls `on_datagram` for what arrives and then `poll`, takes `outbox`, and calls `poll` again at `deadline`.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from . import handshake, streams
from .codec import check_crc, check_head, check_path
from .codepoints import LEAST_INIT, Drop, PacketType, Reason
from .connection import NEVER_SEALED, Connection
from .identity import OwnEnd, Security
from .initiator import Initiator
from .memory import Memory
from .queue_pair import QueuePair
from .protection import UPDATE_AFTER
from .receiving_half import ReceivingHalf
from .retry import Cookies
from .sending_half import SendingHalf
from .small_codings import text_address
from .work_request import RETRY

Address = tuple[str, int]
FIRST_STREAM, LAST_STREAM = 16, 65534


@dataclass
class Limits:
    max_paths: int = 4
    max_payload: int = 4096
    cpsn_window: int = 16384
    max_rd_atomic: int = 16
    max_connections: int = 4096
    key_update: int = UPDATE_AFTER


@dataclass
class Output:
    data: bytes
    to: Address
    ect: bool


class Endpoint:
    def __init__(self, address: str, port: int, slot: int, limits: Limits, source: random.Random,
                 receive_buffer: int, security: Security = Security()) -> None:
        self.address, self.port, self.slot, self.base_port = address, port, slot, port - slot
        self.limits, self.source, self.receive_buffer = limits, source, receive_buffer
        self.security = security
        self.endpoint_id = source.randbytes(16)
        self.cookies = Cookies(source.randbytes(32))
        self.memory = Memory(source)
        self.qps: dict[int, QueuePair] = {}
        self.connections: dict[int, Connection] = {}
        self.initiators: dict[int, Initiator] = {}
        self.counters: Counter[str] = Counter()
        self.outbox: list[Output] = []
        self.ending = False
        self.held = 0
        self.next_stream = source.randrange(FIRST_STREAM, LAST_STREAM + 1)
        self.made_qps = 0
        self._checks: list[SendingHalf] = []

    # --- datagrams -----------------------------------------------------------------------------------------------

    def on_datagram(self, raw: bytes, source: Address, ce: bool, now: int) -> None:
        """One datagram; what is wrong with it is counted."""
        try:
            header = check_head(raw)
            is_init = header.type == PacketType.INIT
            if is_init or header.type in NEVER_SEALED or 2 not in self.security.modes:  # else §3.13-17
                check_crc(raw)
            if is_init:
                if len(raw) < LEAST_INIT:
                    raise Drop("drop_truncated")
                handshake.on_init(self, header, raw, source, now)
                return
            check_path(header)
            connection = self.connections.get(header.dcid) or self.initiators.get(header.dcid)
            if connection is None:
                raise Drop("drop_connection")
            connection.on_datagram(header, raw, ce, now)
        except Drop as drop:
            self.counters[drop.counter] += 1
            if drop.counter == "drop_version":
                handshake.answer_version(self, raw, source, now)

    def output(self, data: bytes, to: Address, ect: bool) -> None:
        self.outbox.append(Output(data, to, ect))

    def take(self) -> list[Output]:
        taken, self.outbox = self.outbox, []
        return taken

    def poll(self, now: int) -> None:
        """Timers, completions, everything that may be sent."""
        for qp in list(self.qps.values()):
            if qp.sending is not None:
                qp.sending.on_timer(now)
        self._run_checks()
        for initiator in list(self.initiators.values()):
            initiator.poll(now)
        for connection in list(self.connections.values()):
            connection.poll(now)
            if connection.state == "closed":
                del self.connections[connection.cid]
        self._run_checks()

    def check_soon(self, half: SendingHalf) -> None:
        """A failure whose turn may have come; looked at when the event at hand is over."""
        self._checks.append(half)

    def _run_checks(self) -> None:
        while self._checks:
            self._checks.pop().check_done()

    def deadline(self, now: int) -> int | None:
        times = [time for connection in self.connections.values() for time in connection.deadlines()]
        times += [initiator.next_at for initiator in self.initiators.values()]
        for qp in self.qps.values():
            times += qp.sending.deadlines() if qp.sending is not None else []
        return min((time for time in times if time > now), default=None)

    # --- connections ---------------------------------------------------------------------------------------------

    def free_cid(self) -> int:
        while True:
            cid = self.source.getrandbits(32)
            if cid and cid not in self.connections and cid not in self.initiators:
                return cid

    def connection_to(self, address: bytes, qpn: int, now: int) -> Connection | None:
        """The newest open connection with the endpoint that has this queue pair (§4.3), if possible a validated one; if
        there is none the endpoint becomes initiator."""
        port = self.base_port + (qpn >> 16)
        fitting = [c for c in self.connections.values() if c.state == "open" and c.peer[1] == port
                   and address in c.peer_addresses]
        if not fitting:
            self._call((text_address(address), port), now)
        return next((c for c in reversed(fitting) if c.validated), fitting[-1] if fitting else None)

    def _call(self, peer: Address, now: int) -> None:
        if self.ending or any(initiator.peer == peer for initiator in self.initiators.values()):
            return
        own = OwnEnd.make(self.free_cid(), self.source)
        self.initiators[own.cid] = Initiator(self, own, peer, now)

    def initiator_lost(self, initiator: Initiator) -> None:
        """§4.3-7, §4.13: whoever waits for this connection fails."""
        del self.initiators[initiator.own.cid]
        for qp in list(self.qps.values()):
            target = (text_address(qp.remote_address), self.base_port + (qp.remote_qpn >> 16))
            if target == initiator.peer and qp.sending is not None and qp.sending.waits_to_open():
                self.qp_error(qp, RETRY)

    def connection_ended(self, connection: Connection, failure: bool) -> None:
        """§4.13."""
        for qp in list(self.qps.values()):
            receiving, sending = qp.receiving, qp.sending
            receives = receiving is not None and receiving.connection is connection
            sends = sending is not None and sending.connection is connection
            if receives:
                receiving.end()
            if sends:
                sending.on_connection_ended(failure, connection.now)
            if failure and (receives or sends):
                self.qp_error(qp, "RETRY_EXC_ERR")

    def shutdown(self, now: int) -> None:
        """The orderly end of the endpoint (§4.10)."""
        self.ending = True
        self.initiators.clear()
        for qp in self.qps.values():
            if qp.receiving is not None:
                streams.stop(qp.receiving, Reason.GONE)
        for connection in self.connections.values():
            connection.drain(now)

    # --- queue pairs ---------------------------------------------------------------------------------------------

    def create_qp(self, max_send_wr: int, max_recv_wr: int) -> QueuePair:
        """Stream numbers are given out in turn through the whole range (§8.7)."""
        while self.next_stream in self.qps:
            self._advance_stream()
        self.made_qps += 1
        qp = QueuePair(self.made_qps, self.slot << 16 | self.next_stream, max_send_wr, max_recv_wr)
        qp.sending = SendingHalf(self, qp)
        self.qps[self.next_stream] = qp
        self._advance_stream()
        return qp

    def _advance_stream(self) -> None:
        self.next_stream = FIRST_STREAM if self.next_stream >= LAST_STREAM else self.next_stream + 1

    def find_qp(self, qpn: int) -> QueuePair | None:
        qp = self.qps.get(qpn & 0xFFFF)
        return qp if qp is not None and qp.qpn == qpn else None

    def half_failed(self, half: ReceivingHalf) -> None:
        """A failed message is the oldest, and all responses are accepted (§9.12)."""
        failed, qp = half.failed, half.qp
        assert failed is not None
        if failed.receive_status is not None and qp.receives:
            qp.complete_receive(failed.receive_status)
        streams.stop(half, Reason.FAILED, failed.code)
        self.qp_error(qp, None)

    def qp_error(self, qp: QueuePair, cause: str | None) -> None:
        """A queue pair goes to ERR (§9.12): both halves end, everything posted is flushed."""
        if qp.state in ("err", "reset"):
            return
        qp.state = "err"
        if qp.receiving is not None:
            streams.stop(qp.receiving, Reason.GONE)
        if qp.sending is not None:
            qp.sending.flush(cause)
        qp.flush_receives()

    def reset_qp(self, qp: QueuePair) -> None:
        """To RESET: as to ERR, but nothing completes and nothing remains (the MSNs go on)."""
        if qp.receiving is not None:
            streams.stop(qp.receiving, Reason.GONE)
        if qp.sending is not None:
            qp.sending.flush(None)
        qp.state = "reset"
        qp.receives.clear()
        qp.completions.clear()

    def destroy_qp(self, qp: QueuePair) -> None:
        self.reset_qp(qp)
        del self.qps[qp.stream]
