"""Responses to READs and atomics (§9.6, §9.8): packets of the responder with CPSNs of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .codepoints import Nak, Opcode
from .packets import Data
from .send_side import Built, Packet
from .small_codings import encode_backlog

if TYPE_CHECKING:
    from .receiving_half import Message, ReceivingHalf


class ReadResponse:
    """Cuts the response of one READ; the bytes are fetched at each transmission of each packet."""

    def __init__(self, half: ReceivingHalf, message: Message) -> None:
        self.owner = half
        self.message = message
        self.offset = 0
        self.cut_all = False
        self.left = 0  # packets that were cut and are not accepted

    def next_packet(self) -> Packet | None:
        if self.cut_all:
            return None
        offset, mtu = self.offset, self.owner.payload_mtu
        self.offset += mtu
        self.cut_all = self.offset >= self.message.length
        self.left += 1
        return Packet(self.owner, lambda: self._build(offset), self._accepted)

    def _build(self, offset: int) -> Built:
        message, half = self.message, self.owner
        size = min(half.payload_mtu, message.length - offset)
        data = Data(Opcode.READ_RESP, stream=half.peer_stream, offset=offset, length=message.length,
                    rdslot=message.rdslot)
        region = half.memory.remote(message.rkey, message.va, message.length, "remote_read") if size else None
        if size and (region is None or "remote_read" not in half.qp.access):
            data.status = Nak.ACCESS
        elif region is not None:
            start = message.va - region.addr + offset
            data.payload = bytes(region.data[start:start + size])
        last = offset + size >= message.length
        data.backlog = encode_backlog((message.length - offset - 1) // half.payload_mtu if not last else 0)
        return data, 0

    def _accepted(self, _: bool) -> None:
        self.left -= 1
        if self.cut_all and self.left == 0:
            self.owner.response_done()


class AtomicResponse:
    """The response of one atomic: a packet."""

    def __init__(self, half: ReceivingHalf, message: Message, original: int) -> None:
        self.owner = half
        self.rdslot, self.original = message.rdslot, original
        self.cut_all = False

    def next_packet(self) -> Packet | None:
        if self.cut_all:
            return None
        self.cut_all = True
        return Packet(self.owner, self._build, lambda _: self.owner.response_done())

    def _build(self) -> Built:
        return Data(Opcode.ATOMIC_RESP, stream=self.owner.peer_stream, rdslot=self.rdslot,
                    original=self.original), 0
