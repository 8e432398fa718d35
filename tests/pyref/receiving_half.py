"""The receiving half of a stream: checks, placement, tail hold, finishing in order, failures (§9.3–§9.8, §9.12).

Packets come in any order. Each names its message; the half counts the bytes of every message that has begun, and
finishes messages strictly by MSN. One packet of a WRITE, the last, is kept aside until everything before it is there.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .codepoints import ANSWERED, ATOMICS, CONSUMING, SENDS, WRITES, Nak, Opcode
from .memory import Region
from .numbers import MASK32, expand
from .packets import CreditTlv, Data
from .queue_pair import QueuePair, Receive
from .responses import AtomicResponse, ReadResponse
from .verdict import ACCEPT, DROP, Verdict, reject

if TYPE_CHECKING:
    from .connection import Connection

MESSAGE_WINDOW = 1024
LONGEST_MESSAGE = 1 << 31
MOST_RESPONSES = 4096
HELD_BYTES = 4 << 20


@dataclass
class Message:
    """A message that has begun: the fields that all of its packets share, and what has come of it."""

    op: int
    length: int
    va: int
    rkey: int
    rqsn: int
    imm: int
    rdslot: int
    solicited: bool
    operand: int
    compare: int
    received: int = 0
    complete: bool = False
    tail_offset: int = 0
    tail: bytes = b""


@dataclass
class Failure:
    msn: int
    code: Nak
    receive_status: str | None


class ReceivingHalf:
    def __init__(self, qp: QueuePair, connection: Connection, incarnation: int, first_msn: int) -> None:
        self.qp, self.connection = qp, connection
        self.memory = connection.endpoint.memory
        self.payload_mtu = connection.payload_mtu
        self.incarnation = incarnation
        self.peer_stream = qp.remote_qpn & 0xFFFF
        self.oldest = first_msn
        self.next_rqsn = 0
        self.messages: dict[int, Message] = {}
        self.failed: Failure | None = None
        self.responses = 0
        self.ended = False
        self.peer_waits = False  # for credit

    # --- credits (§8.10) -----------------------------------------------------------------------------------------

    @property
    def granted(self) -> int:
        return (self.next_rqsn + len(self.qp.receives)) & MASK32

    def credit(self) -> CreditTlv:
        return CreditTlv(self.peer_stream, self.incarnation & 0xFFFF, self.granted)

    def posted(self, now: int) -> None:
        """A receive was posted: tell it with the next ACK, at once if the peer waits for it."""
        self.connection.acks.credit(self.qp.stream)
        if self.peer_waits:
            self.connection.acks.by(now)
            self.peer_waits = False

    def asked(self, now: int) -> None:
        """The peer has no credit and asks (§8.11): it is answered at once, and when there is something new."""
        self.connection.acks.credit(self.qp.stream)
        self.connection.acks.by(now)
        self.peer_waits = True

    # --- arrival (§9.3) ------------------------------------------------------------------------------------------

    def receive(self, data: Data, solicited: bool) -> Verdict:
        msn = expand(data.msn, self.oldest)
        if msn < self.oldest:
            return ACCEPT  # it is finished, and its sender, who does not know, starts it again (§8.14)
        if msn >= self.oldest + MESSAGE_WINDOW:
            return reject(Nak.WINDOW)
        if self.failed is not None and msn >= self.failed.msn:
            return reject(self.failed.code)
        shared = Message(data.op, data.length, data.va, data.rkey, expand(data.rqsn, self.next_rqsn), data.imm,
                         data.rdslot, solicited, data.operand, data.compare)
        message = self.messages.get(msn, shared)
        if data.length > LONGEST_MESSAGE or not _same(message, shared):
            return self.fail(msn, Nak.INVALID)
        if message.complete:
            return ACCEPT
        if not self._fits(message, data):
            return self.fail(msn, Nak.INVALID)
        return self._place(msn, message, data)

    def _fits(self, message: Message, data: Data) -> bool:
        """Offset, size and sum of what a packet brings."""
        if message.op in ANSWERED:
            return data.offset == 0 and (message.op == Opcode.READ_REQ or message.length == 8)
        if message.length and data.offset >= message.length:
            return False
        size = min(self.payload_mtu, message.length - data.offset)
        return (data.offset % self.payload_mtu == 0 and len(data.payload) == size
                and message.received + size <= message.length)

    def _place(self, msn: int, message: Message, data: Data) -> Verdict:
        """The last rows of the table, and placement; the message begins here if nothing speaks against it."""
        if message.op in CONSUMING and message.rqsn < self.next_rqsn:
            return self.fail(msn, Nak.INVALID)
        if message.op in CONSUMING and self._receive_of(message) is None:
            return reject(Nak.RNR, self.qp.min_rnr_timer)
        if message.op in ANSWERED:
            if self.qp.rd_atomic == 0:
                return self.fail(msn, Nak.INVALID)
            if self.responses + sum(m.op in ANSWERED for m in self.messages.values()) >= MOST_RESPONSES:
                return DROP
            message.complete = True
        elif message.op in WRITES:
            verdict = self._write(msn, message, data)
            if not verdict.accepted:
                return verdict
        else:
            verdict = self._send(msn, message, data)
            if not verdict.accepted:
                return verdict
        self.messages[msn] = message
        self.advance()
        return ACCEPT

    def _receive_of(self, message: Message) -> Receive | None:
        index = message.rqsn - self.next_rqsn
        return self.qp.receives[index] if 0 <= index < len(self.qp.receives) else None

    def _writable(self, message: Message) -> Region | None:
        if "remote_write" not in self.qp.access:
            return None
        return self.memory.remote(message.rkey, message.va, message.length, "remote_write")

    def _write(self, msn: int, message: Message, data: Data) -> Verdict:
        size = len(data.payload)
        if message.length:
            region = self._writable(message)
            if region is None:
                return self.fail(msn, Nak.ACCESS)
            if data.offset + size == message.length:
                at_once = msn == self.oldest and message.received + size == message.length
                if not at_once and self.connection.endpoint.held + size > HELD_BYTES:
                    return DROP
                self.connection.endpoint.held += size - len(message.tail)
                message.tail_offset, message.tail = data.offset, data.payload
            else:
                _store(region, message.va + data.offset, data.payload)
        self._count(message, size)
        return ACCEPT

    def _send(self, msn: int, message: Message, data: Data) -> Verdict:
        receive = self._receive_of(message)
        assert receive is not None
        if message.length > receive.length:
            return self.fail(msn, Nak.LENGTH, "LOC_LEN_ERR")
        if data.payload:
            at = receive.offset + data.offset
            region = self.memory.local(receive.region, at, len(data.payload), write=True)
            if region is None:
                return self.fail(msn, Nak.REMOTE_OP, "LOC_PROT_ERR")
            region.data[at:at + len(data.payload)] = data.payload
        self._count(message, len(data.payload))
        return ACCEPT

    @staticmethod
    def _count(message: Message, size: int) -> None:
        message.received += size
        message.complete = message.received == message.length

    # --- VOID (§5.15) --------------------------------------------------------------------------------------------

    def void(self, wire_msn: int) -> None:
        """Everything that has arrived of an incomplete message is forgotten."""
        msn = expand(wire_msn, self.oldest)
        message = self.messages.get(msn)
        if message is not None and not message.complete:
            self._forget(msn)

    def _forget(self, msn: int) -> None:
        message = self.messages.pop(msn)
        self.connection.endpoint.held -= len(message.tail)

    # --- finishing (§9.5) ----------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Finish what can be finished, in order; deal with a failure when its turn comes."""
        while not self.ended:
            if self.failed is not None and self.failed.msn == self.oldest:
                if self.responses == 0:
                    self.connection.endpoint.half_failed(self)
                return
            message = self.messages.get(self.oldest)
            if message is None or not message.complete:
                return
            if self._finish(message):
                self._forget(self.oldest)
                self.oldest += 1

    def _finish(self, message: Message) -> bool:
        if message.op in CONSUMING and message.rqsn != self.next_rqsn:
            return self._late(Nak.INVALID)
        if message.op in WRITES and message.tail:
            region = self._writable(message)
            if region is None:
                return self._late(Nak.ACCESS)
            _store(region, message.va + message.tail_offset, message.tail)
        if message.op == Opcode.READ_REQ:
            return self._read(message)
        if message.op in ATOMICS:
            return self._atomic(message)
        if message.op == Opcode.SEND_INV:
            region = self.memory.by_key.get(message.imm)
            if region is None:
                return self._late(Nak.REMOTE_OP, "LOC_PROT_ERR")
            region.access -= {"remote_write", "remote_read", "remote_atomic"}
        if message.op in CONSUMING:
            opcode = "RECV" if message.op in SENDS else "RECV_RDMA_WITH_IMM"
            has_imm = message.op in (Opcode.SEND_IMM, Opcode.WRITE_IMM)
            self.qp.complete_receive("SUCCESS", opcode, message.length, message.imm if has_imm else None)
            self.next_rqsn += 1
        return True

    def _late(self, code: Nak, receive_status: str | None = None) -> bool:
        """A message fails although its packets were accepted."""
        self._set_failed(self.oldest, code, receive_status)
        return False

    def _read(self, message: Message) -> bool:
        if message.length and ("remote_read" not in self.qp.access or self.memory.remote(
                message.rkey, message.va, message.length, "remote_read") is None):
            return self._late(Nak.ACCESS)
        self._respond(ReadResponse(self, message))
        return True

    def _atomic(self, message: Message) -> bool:
        if message.va % 8:
            return self._late(Nak.INVALID)
        region = self.memory.remote(message.rkey, message.va, 8, "remote_atomic")
        if region is None or "remote_atomic" not in self.qp.access:
            return self._late(Nak.ACCESS)
        at = message.va - region.addr
        original = int.from_bytes(region.data[at:at + 8], sys.byteorder)
        if message.op == Opcode.FETCH_ADD:
            value = (original + message.operand) & 0xFFFFFFFFFFFFFFFF
        else:
            value = message.operand if original == message.compare else original
        region.data[at:at + 8] = value.to_bytes(8, sys.byteorder)
        self._respond(AtomicResponse(self, message, original))
        return True

    def _respond(self, response: ReadResponse | AtomicResponse) -> None:
        self.responses += 1
        self.connection.send.producers.append(response)

    def response_done(self) -> None:
        """A response was accepted as a whole."""
        self.responses -= 1
        self.connection.send.producers = type(self.connection.send.producers)(
            p for p in self.connection.send.producers if not getattr(p, "cut_all", False))
        self.advance()

    # --- failure and end -----------------------------------------------------------------------------------------

    def _set_failed(self, msn: int, code: Nak, receive_status: str | None) -> None:
        self.failed = Failure(msn, code, receive_status)
        for later in [m for m in self.messages if m >= msn]:
            self._forget(later)

    def fail(self, msn: int, code: Nak, receive_status: str | None = None) -> Verdict:
        """The message fails on arrival of a packet; the lowest failed MSN counts, and callers have checked that."""
        self._set_failed(msn, code, receive_status)
        self.advance()
        return reject(code)

    def end(self) -> None:
        """Unfinished messages and responses are given up (§8.5)."""
        self.ended = True
        for msn in list(self.messages):
            self._forget(msn)
        self.connection.send.give_up(self)
        if self.qp.receiving is self:
            self.qp.receiving = None


def _same(a: Message, b: Message) -> bool:
    """What all packets of a message have in common, as far as it is checked (§9.3-7)."""
    return ((a.op, a.length, a.va, a.rkey, a.rqsn, a.imm, a.rdslot)
            == (b.op, b.length, b.va, b.rkey, b.rqsn, b.imm, b.rdslot))


def _store(region: Region, va: int, payload: bytes) -> None:
    at = va - region.addr
    region.data[at:at + len(payload)] = payload
