"""A connection after the handshake: what it takes, what it sends, how it ends (§4.9–§4.13, §5.3, §5.7)."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Callable

from . import streams
from .acknowledger import BURST_ACK, Acknowledger
from .codec import check_crc, check_type, decode_body, encode, encode_open
from .codepoints import (OVERHEAD, RESPONSES, STREAM_CONTROL, TAG_BYTES, TRAILER_BYTES, Drop, Flag, Nak, Opcode,
                         PacketType)
from .identity import OwnEnd
from .key_schedule import Schedule
from .numbers import MASK32, expand
from .packets import (Ack, Body, Close, CreditTlv, Data, Datagram, Header, Init, Probe, ProbeAck, Reset, StreamControl)
from .protection import MOST_FAILURES, Sealer, Unsealer
from .receive_window import CpsnWindow, ReceivedPath
from .data_codec import encoded_bytes
from .send_side import Packet, SendSide, nothing
from .small_codings import ts_of, wire_address
from .verdict import ACCEPT, DROP, Verdict, reject

if TYPE_CHECKING:
    from .endpoint import Address, Endpoint

MILLI = 1_000_000
SILENCE = 5000 * MILLI
KEEPALIVE = 10_000 * MILLI
ASK_AGAIN = 500 * MILLI
DRAIN_LIMIT = 300 * MILLI
LINGER = 1000 * MILLI
MUTUAL_LINGER = 20 * MILLI
MOST_BURST = 64
MOST_UNHEARD = 3

TAKEN = {
    "open": {PacketType.DATA, PacketType.ACK, PacketType.PROBE, PacketType.PROBE_ACK, PacketType.CLOSE,
             PacketType.RESET},
    "closing": {PacketType.CLOSE, PacketType.CLOSE_ACK, PacketType.RESET},
    "time_wait": {PacketType.CLOSE, PacketType.RESET},
    "closed": set(),
}
TAKEN["draining"] = TAKEN["open"]
ALIVE = {PacketType.DATA, PacketType.ACK, PacketType.PROBE, PacketType.PROBE_ACK}
NEVER_SEALED = {PacketType.RETRY, PacketType.VERSION, PacketType.RESET}


class Connection:
    """`init` is the peer's INIT, or INIT_ACK if this end is the initiator."""

    def __init__(self, endpoint: Endpoint, own: OwnEnd, init: Init, peer: Address, now: int, acceptor: bool,
                 mode: int | None = None) -> None:
        limits = endpoint.limits
        self.endpoint, self.own, self.cid, self.init, self.now = endpoint, own, own.cid, init, now
        self.acceptor, self.mode = acceptor, init.security if mode is None else mode
        self.peer = peer
        self.peer_wire = wire_address(peer[0])
        self.peer_addresses = {self.peer_wire} | {port.address for port in init.ports}
        self.state = "open"
        self.init_transcript = b""
        self.sealer: Sealer | None = None
        self.unsealer: Unsealer | None = None
        self.payload_mtu = min(init.payload_mtu, limits.max_payload)
        window = min(init.cpsn_window, limits.cpsn_window)
        self.window = CpsnWindow(init.first_cpsn, window)
        self.acks = Acknowledger(self.window, self._credit_of)
        self.send = SendSide(own.first_cpsn, own.first_pseq, window, self.payload_mtu + OVERHEAD[self.mode],
                             init.receive_buffer)
        self.validated = False
        self.heard_bytes = self.said_bytes = 0  # until it is validated
        self.batch = 0
        self.last_received = self.last_data_sent = self.last_probe = now
        self.waiting_since: int | None = now
        self.ends_at: int | None = None
        self.next_close = 0

    def is_at(self, address: Address) -> bool:
        """Is this one of the peer's addresses?"""
        return address[1] == self.peer[1] and wire_address(address[0]) in self.peer_addresses

    def heard(self, size: int) -> None:
        """An INIT has come; three times as much may be sent before the peer is validated (§10.4-3)."""
        self.heard_bytes += size

    def shrink(self, payload_mtu: int) -> None:
        """A repeated INIT offers less (§4.4); nothing has been sent yet that depends on it."""
        self.payload_mtu = payload_mtu
        self.send.full_size = payload_mtu + OVERHEAD[self.mode]

    # --- mode 2 (§10.3) ------------------------------------------------------------------------------------------

    @property
    def trailer(self) -> int:
        return TAG_BYTES if self.mode == 2 else TRAILER_BYTES

    def protect(self, keys: Schedule) -> None:
        """The keys are known: from here on everything has a tag."""
        sent, received = (keys.a2i, keys.i2a) if self.acceptor else (keys.i2a, keys.a2i)
        self.sealer = Sealer(sent, self.endpoint.limits.key_update)
        self.sealer.first_cpsn = self.send.first_cpsn
        self.send.on_accepted = self.sealer.accepted
        self.unsealer = Unsealer(received, self.init.first_pseq)

    def unseal(self, header: Header, raw: bytes) -> bytes:
        """Check 3 for datagrams of this connection, and the payload in clear."""
        if self.unsealer is None:
            if 2 in self.endpoint.security.modes:
                check_crc(raw)
            return raw
        return self.unsealer.open(header, raw, self.now, self.send.timeout())

    def _step_keys(self, now: int) -> None:
        """Update the keys, ask for what must be known first, or give up (§10.3.4)."""
        sealer = self.sealer
        if sealer is None or sealer.update(self.send.next_cpsn) or not sealer.due:
            return
        if sealer.exhausted:
            self.lose(failure=True)
        elif now - self.last_probe >= self.send.timeout():
            self.ask_limits()

    # --- arrival -------------------------------------------------------------------------------------------------

    def on_datagram(self, header: Header, raw: bytes, ce: bool, now: int) -> None:
        """Check 3 in mode 2, 7 to 10 of §3.13, and what follows."""
        self.now = now
        if header.type == PacketType.INIT_ACK:
            return  # ignored in every state that is left, whatever its trailer is
        trailer = self.trailer
        if header.type in NEVER_SEALED:
            trailer = TRAILER_BYTES
        else:
            try:
                raw = self.unseal(header, raw)
            except Drop:
                if self.unsealer is not None and self.unsealer.failures >= MOST_FAILURES:
                    self.lose(failure=True)
                raise
        check_type(header)
        if header.type not in TAKEN[self.state]:
            return
        if header.type == PacketType.CLOSE_ACK:
            self.state = "closed"  # its body is not looked at (§4.10-9)
            return
        body = decode_body(header, raw, trailer)
        if header.type not in ALIVE:
            self._on_end(body)
            return
        if isinstance(body, Data):
            self._on_data(header, body, ce)
        elif isinstance(body, Ack):
            self._on_ack(body)
        elif isinstance(body, Probe):
            self._on_probe(header, body)
        elif isinstance(body, ProbeAck) and self.sealer is not None:
            self.sealer.answered(body.token)
        self.validated = True
        self.last_received, self.waiting_since = now, None

    def _on_data(self, header: Header, data: Data, ce: bool) -> None:
        path = self.acks.paths.get(header.path) or ReceivedPath(header.path)
        first = self.init.first_pseq
        pseq = expand(header.pseq, first if path.largest is None else path.largest)
        if not path.in_range(pseq, first):
            raise Drop("drop_pseq")
        cpsn = expand(data.cpsn, self.window.base)
        if not self.window.in_range(cpsn):
            raise Drop("drop_cpsn")
        self.acks.paths[header.path] = path
        self.validated = True
        late = path.arrive(pseq, first, header.ts, self.now, ce)
        self.window.highest = max(self.window.highest, cpsn + 1)
        duplicate = self.window.is_duplicate(cpsn)
        verdict = ACCEPT if duplicate else self._dispatch(header, data)
        if verdict.accepted:
            path.mark(pseq)
            if not duplicate:
                self.window.accept(cpsn)
        elif verdict.code:
            self.acks.nak(self.now, cpsn, verdict.code, verdict.arg)
        self.acks.arrived(self.now, late or duplicate, header.has(Flag.AR), ce)
        self.batch += 1

    def _dispatch(self, header: Header, data: Data) -> Verdict:
        """A packet that is no duplicate goes to its stream (§5.3)."""
        if data.op in STREAM_CONTROL:
            if data.control is None:
                self.endpoint.counters["drop_malformed"] += 1
                return DROP
            streams.handle(self, data)
            return ACCEPT
        qp = self.endpoint.qps.get(data.stream)
        if data.op in RESPONSES:
            half = qp.sending if qp is not None else None
            if half is None or half.connection is not self or half.state != "open":
                return ACCEPT
            return half.on_response(data)
        receiving = qp.receiving if qp is not None else None
        known = receiving is not None and receiving.connection is self
        if data.op == Opcode.VOID:
            if known:
                receiving.void(data.msn)
            return ACCEPT
        return receiving.receive(data, header.has(Flag.SE)) if known else reject(Nak.UNKNOWN_STREAM)

    def _on_ack(self, ack: Ack) -> None:
        """§5.7."""
        self.send.check(ack)
        for credit in ack.credits:
            qp = self.endpoint.qps.get(credit.stream)
            half = qp.sending if qp is not None else None
            if (half is not None and half.connection is self and half.state == "open"
                    and half.incarnation & 0xFFFF == credit.incarnation):
                half.on_credit(credit.limit, self.now)
        for stream in ack.reclaims:
            qp = self.endpoint.qps.get(stream)
            if qp is not None and qp.sending is not None and qp.sending.connection is self:
                qp.sending.on_reclaim()
        self.send.on_ack(ack, max(self.window.window, self.endpoint.limits.cpsn_window), self.now)
        for nak in ack.naks:
            packet = self.send.packets.get(expand(nak.cpsn, self.send.oldest))
            on_nak = getattr(packet.owner, "on_nak", None) if packet is not None else None
            if on_nak is not None:
                on_nak(packet, nak.code, nak.arg, self.now)

    def _on_probe(self, header: Header, probe: Probe) -> None:
        """§7.3, §5.17: the token comes back; a question is answered with an ACK as well."""
        self.send_control_datagram(PacketType.PROBE_ACK, ProbeAck(probe.token))
        for stream in probe.streams:
            qp = self.endpoint.qps.get(stream)
            if qp is not None and qp.receiving is not None and qp.receiving.connection is self:
                qp.receiving.asked(self.now)
        if header.has(Flag.AR):
            self.acks.report_all(self.now)

    def _credit_of(self, stream: int) -> CreditTlv | None:
        qp = self.endpoint.qps.get(stream)
        half = qp.receiving if qp is not None else None
        return half.credit() if half is not None and half.connection is self else None

    # --- the end (§4.10, §4.11) ----------------------------------------------------------------------------------

    def _on_end(self, body: Body) -> None:
        if isinstance(body, Reset):
            if not hmac.compare_digest(body.token, self.own.reset_token):
                raise Drop("drop_reset")
            self.lose(failure=True)
        elif isinstance(body, Close):
            self._on_close(body)

    def _on_close(self, close: Close) -> None:
        cack = expand(close.cack, self.send.cack)
        if not self.send.cack <= cack <= self.send.next_cpsn:
            raise Drop("drop_forged_ack")
        if self.state != "time_wait":
            self.validated = True
            self.send.on_cack(cack, self.now)
        mutual = self.state == "closing"
        self.send_control_datagram(PacketType.CLOSE_ACK, Close(self.window.base & MASK32, 0))
        if self.state != "time_wait":
            self.lose(failure=False)
            self.state = "time_wait"
            self.ends_at = self.now + (MUTUAL_LINGER if mutual else LINGER)

    def lose(self, failure: bool) -> None:
        """Nothing more is sent; every half that used the connection ends where it is (§4.13)."""
        self.state = "closed"
        self.endpoint.connection_ended(self, failure)

    def drain(self, now: int) -> None:
        """This endpoint ends."""
        if self.state == "open":
            self.state, self.ends_at = "draining", now + DRAIN_LIMIT

    def _step_end(self, now: int) -> None:
        if self.state == "draining":
            whole = not self.send.packets and not self.send.control and self.window.base >= self.window.highest
            if whole or now >= (self.ends_at or 0):
                self.state, self.ends_at, self.next_close = "closing", now + LINGER, now
        if self.state == "closing" and now >= self.next_close:
            self.send_control_datagram(PacketType.CLOSE, Close(self.window.base & MASK32, 0))
            self.next_close = now + max(5 * MILLI, 2 * self.send.srtt)
        if self.state in ("closing", "time_wait") and self.ends_at is not None and now >= self.ends_at:
            self.state = "closed"

    # --- sending -------------------------------------------------------------------------------------------------

    def send_control(self, op: Opcode, control: StreamControl, msn: int = 0, owner: object = None,
                     accepted: Callable[[bool], None] = nothing) -> None:
        """Queue a stream control message as a packet."""
        if self.state not in ("open", "draining"):
            return

        def build() -> tuple[Data, int]:
            return Data(op, stream=control.dst_qpn & 0xFFFF, msn=msn & MASK32, length=32, control=control), 0

        self.send.push(Packet(owner, build, accepted))

    def header(self, kind: PacketType, flags: int = 0, pseq: int = 0) -> Header:
        phase = self.sealer.flags() if self.sealer is not None else 0
        return Header(kind, flags | phase, 0, 0, self.init.scid, pseq & MASK32, ts_of(self.now))

    def _output(self, datagram: Datagram, pseq: int, ect: bool) -> None:
        """With the trailer of the mode; `pseq` is the full number."""
        if self.sealer is None:
            raw = encode(datagram)
        else:
            raw = self.sealer.seal(datagram.header, pseq, encode_open(datagram, TAG_BYTES))
        if not self.validated:
            if self.acceptor and self.said_bytes + len(raw) > MOST_UNHEARD * self.heard_bytes:
                return  # as if it were lost
            self.said_bytes += len(raw)
        self.endpoint.output(raw, self.peer, ect)

    def emit(self, datagram: Datagram) -> None:
        """A control datagram; it gets its number here."""
        pseq = self.own.control_pseq
        self.own.control_pseq += 1
        datagram.header.pseq = pseq & MASK32
        self._output(datagram, pseq, False)

    def send_control_datagram(self, kind: PacketType, body: Body, flags: int = 0) -> None:
        self.emit(Datagram(self.header(kind, flags), body))

    def ask_limits(self, *named: int) -> None:
        """A PROBE of kind 0 (§4.9, §5.17); its token matters only for an update of keys."""
        self.last_probe = self.now
        if self.waiting_since is None:
            self.waiting_since = self.now
        probe = Probe(self.endpoint.source.getrandbits(64), 0, list(named))
        if self.sealer is not None:
            self.sealer.tokens.add(probe.token)
        self.send_control_datagram(PacketType.PROBE, probe, Flag.AR)

    def _transmit(self, now: int) -> None:
        """What may be sent now; AR on the last datagram."""
        packet, sent = self.send.next(now), 0
        while packet is not None:
            data, flags = self.send.content(packet)
            pseq = self.send.transmitted(packet, encoded_bytes(data, self.trailer), now)
            sent += 1
            packet = self.send.next(now) if sent < MOST_BURST else None
            header = self.header(PacketType.DATA, flags | (0 if packet else Flag.AR), pseq)
            self._output(Datagram(header, data), pseq, True)
        if sent:
            self.last_data_sent = now
            if self.waiting_since is None:
                self.waiting_since = now

    def poll(self, now: int) -> None:
        """Everything that is due: ACKs, packets, timers."""
        self.now = now
        if self.batch >= BURST_ACK:
            self.acks.by(now)
        self.batch = 0
        if self.state in ("open", "draining"):
            self.send.on_timer(now)
            self._step_keys(now)
        if self.state in ("open", "draining"):
            for ack in self.acks.build(now):
                self.send_control_datagram(PacketType.ACK, ack)
            self._transmit(now)
            self._step_life(now)
        self._step_end(now)

    def _step_life(self, now: int) -> None:
        """Silence, standstill, keepalive, repetition (§4.9)."""
        waiting = self.waiting_since
        if waiting is not None and now - waiting >= SILENCE and now - self.last_received >= SILENCE:
            self.lose(failure=True)
        elif self.send.packets and now - self.send.last_accept >= SILENCE:
            self.lose(failure=True)
        elif not self.validated:
            return
        elif waiting is None and now - max(self.last_received, self.last_data_sent) >= KEEPALIVE:
            self.ask_limits()
        elif waiting is not None and self.send.flying == 0 and now - max(self.last_probe, waiting) >= ASK_AGAIN:
            self.ask_limits()

    def deadlines(self) -> list[int]:
        """When `poll` may have something to do."""
        times = [self.acks.due, self.send.deadline(), self.ends_at]
        if self.state == "closing":
            times.append(self.next_close)
        if self.waiting_since is not None:
            times += [max(self.waiting_since, self.last_received) + SILENCE,
                      max(self.last_probe, self.waiting_since) + ASK_AGAIN if self.validated else None]
        else:
            times.append(max(self.last_received, self.last_data_sent) + KEEPALIVE)
        if self.send.packets:
            times.append(self.send.last_accept + SILENCE)
        if self.sealer is not None and self.sealer.due:
            times.append(self.last_probe + self.send.timeout())
        return [time for time in times if time is not None]
