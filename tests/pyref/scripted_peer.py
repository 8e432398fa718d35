"""A peer for tests: it drives an endpoint in memory and in virtual time, one datagram at a time, and remembers what
comes back. It does nothing by itself: tests say what is sent, in which order, and what is acknowledged."""

import random
from typing import Any

from .codec import decode, encode
from .codepoints import MAGIC, Flag, Opcode, PacketType
from .endpoint import Address, Endpoint, Limits
from .memory import Region
from .numbers import MASK32, expand
from .packets import Ack, Body, Data, Datagram, Header, Init, Port, Probe, StreamControl
from .queue_pair import QueuePair, Receive
from .receive_window import CpsnWindow, ReceivedPath
from .small_codings import wire_address
from .work_request import OPCODES, WorkRequest

MILLI = 1_000_000
MTU = 512
QPN = 0x010020  # of this side: slot 1
PSN = 0x1234


class ScriptedPeer:
    def __init__(self, **limits: int) -> None:
        self.now = 10**12
        self.endpoint = Endpoint("127.0.0.2", 61440, 0, Limits(**limits), random.Random(7), 1 << 20)
        self.source: Address = ("127.0.0.1", 40000)
        self.scid, self.nonce = 0x51515151, 0x77
        self.first_cpsn, self.first_pseq = 0xFFFFFFFE, 0xFFFFFFF0  # both wrap soon
        self.next_cpsn = self.first_cpsn
        self.next_pseq: dict[int, int] = {}
        self.inbox: list[Datagram] = []
        self.addresses: list[Address] = []
        self.qp: QueuePair | None = None
        self.incarnation = 1

    # --- datagrams -----------------------------------------------------------------------------------------------

    def deliver(self, raw: bytes, ce: bool = False) -> list[Datagram]:
        """One datagram arrives; what the endpoint sends at once."""
        self.endpoint.on_datagram(raw, self.source, ce, self.now)
        return self.step()

    def step(self, nanoseconds: int = 0) -> list[Datagram]:
        self.now += nanoseconds
        self.endpoint.poll(self.now)
        taken = self.endpoint.take()
        fresh = [decode(out.data) for out in taken]
        self.addresses += [out.to for out in taken]
        self.inbox += fresh
        return fresh

    def control(self, kind: PacketType, body: Body, flags: int = 0, path: int = 0) -> list[Datagram]:
        return self.deliver(encode(Datagram(Header(kind, flags, path, 0, self.cid, 9, 5), body)))

    def init(self, **changes: Any) -> bytes:
        init = Init(MAGIC, 1, 1, 1, 0, self.scid, bytes(range(16)), bytes(16), self.nonce, 61441, MTU, 4, 100, 128,
                    self.first_cpsn, self.first_pseq, 1 << 20, 0, [Port(wire_address("127.0.0.1"), 104)], 1200)
        for name, value in changes.items():
            setattr(init, name, value)
        return encode(Datagram(Header(PacketType.INIT), init))

    def connect(self, **changes: Any) -> Init:
        [answer] = self.deliver(self.init(**changes))
        assert isinstance(answer.body, Init)
        self.answer = answer.body
        self.cid = answer.body.scid
        self.window = CpsnWindow(answer.body.first_cpsn, answer.body.cpsn_window)
        self.path = ReceivedPath(0)
        return answer.body

    # --- packets -------------------------------------------------------------------------------------------------

    def packet(self, data: Data, flags: int = 0, path: int = 0, cpsn: int | None = None, skip: int = 0) -> bytes:
        """The next transmission on a path: of a new packet, or again of the one with that CPSN."""
        if cpsn is None:
            cpsn = self.next_cpsn
            self.next_cpsn += 1
        data.cpsn = cpsn & MASK32
        pseq = self.next_pseq.get(path, self.first_pseq) + skip
        self.next_pseq[path] = pseq + 1
        return encode(Datagram(Header(PacketType.DATA, flags, path, 0, self.cid, pseq & MASK32, 77), data))

    def send(self, data: Data, flags: int = Flag.AR, **more: Any) -> list[Datagram]:
        """The packet arrives, and 10 us pass: enough for the answer to AR."""
        return self.deliver(self.packet(data, flags, **more)) + self.step(10_000)

    def request(self, op: Opcode, msn: int, **members: Any) -> Data:
        assert self.qp is not None
        return Data(op, stream=self.qp.stream, msn=msn, **members)

    def write(self, region: Region, msn: int, content: bytes) -> list[Data]:
        """The packets of a WRITE to the beginning of a region."""
        return [self.request(Opcode.WRITE, msn, offset=at, length=len(content), va=region.addr, rkey=region.key,
                             payload=content[at:at + MTU]) for at in range(0, max(1, len(content)), MTU)]

    def stream_control(self, op: Opcode, msn: int = 0, **members: Any) -> Data:
        assert self.qp is not None
        body = StreamControl(QPN, self.qp.qpn, incarnation=self.incarnation)
        for name, value in members.items():
            setattr(body, name, value)
        return Data(op, stream=self.qp.stream, msn=msn, length=32, control=body)

    def create_qp(self, receives: int = 0, region: Region | None = None, **attributes: Any) -> QueuePair:
        qp = self.endpoint.create_qp(100, 100)
        qp.remote_address, qp.remote_qpn, qp.sq_psn, qp.rq_psn = wire_address("127.0.0.1"), QPN, PSN, PSN
        qp.state = "rts"
        for name, value in attributes.items():
            setattr(qp, name, value)
        for i in range(receives):
            assert region is not None
            qp.receives.append(Receive(100 + i, region.number, 1024 * i, 1024))
        self.qp = qp
        return qp

    def open(self, msn: int = 0) -> StreamControl:
        """STREAM_OPEN; the answer of the endpoint, acknowledged."""
        self.send(self.stream_control(Opcode.STREAM_OPEN, msn, sq_psn=PSN))
        answer = self.data()[-1]
        self.acknowledge()
        assert answer.control is not None
        return answer.control

    def ready(self, receives: int = 0, length: int = 4096, **attributes: Any) -> Region:
        """Connection, region, queue pair, open half: where most tests begin."""
        self.connect()
        access = {"local_write", "remote_write", "remote_read", "remote_atomic"}
        region = self.endpoint.memory.create(length, access)
        self.create_qp(receives, region, **attributes)
        self.open()
        return region

    def post(self, region: Region, op: str, length: int, **members: Any) -> WorkRequest:
        assert self.qp is not None and self.qp.sending is not None
        wr = WorkRequest(len(self.qp.sending.requests) + 1, OPCODES[op], region.number, 0, length, **members)
        self.qp.sending.requests.append(wr)
        return wr

    # --- what came -----------------------------------------------------------------------------------------------

    def bodies(self, kind: type) -> list[Any]:
        return [datagram.body for datagram in self.inbox if isinstance(datagram.body, kind)]

    def data(self, *ops: Opcode) -> list[Data]:
        """Distinct packets that came, in the order of their CPSNs."""
        packets = {data.cpsn: data for data in self.bodies(Data)}
        return [d for _, d in sorted(packets.items(), key=lambda item: expand(item[0], self.answer.first_cpsn))
                if not ops or d.op in ops]

    def ack(self) -> Ack:
        return self.bodies(Ack)[-1]

    def naks(self) -> list[tuple[int, int]]:
        return [(nak.code, nak.arg) for ack in self.bodies(Ack) for nak in ack.naks]

    def acknowledge(self, *lost: int, **members: Any) -> list[Datagram]:
        """ACK for everything that came, but the PSEQs (counted from the first) that are said to be lost."""
        first = self.answer.first_pseq
        for datagram in self.inbox:
            if isinstance(datagram.body, Data):
                pseq = expand(datagram.header.pseq, first)
                if pseq - first not in lost:
                    self.path.arrive(pseq, first, datagram.header.ts, self.now, False)
                    self.path.mark(pseq)
                    cpsn = expand(datagram.body.cpsn, self.window.base)
                    if not self.window.is_duplicate(cpsn):
                        self.window.accept(cpsn)
        ack = Ack(self.window.base & MASK32, self.window.limit & MASK32)
        if self.path.largest is not None:
            ack.blocks = [self.path.block(self.now)]
        for name, value in members.items():
            setattr(ack, name, value)
        return self.control(PacketType.ACK, ack)

    def probe(self, **members: Any) -> list[Datagram]:
        return self.control(PacketType.PROBE, Probe(**members), Flag.AR)
