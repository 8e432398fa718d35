"""The sending half of a stream: opening, cutting, credits, completions (§8, §9.1, §9.2, §9.9, §9.12).

One object for the life of a queue pair; it goes through CLOSED, OPENING, OPEN and CLOSING again and again, each time
with a new incarnation. MSNs go on.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING

from .codepoints import ANSWERED, CONSUMING, Flag, Nak, Opcode, Reason
from .credit_wait import FOR_EVER, CreditWait, RnrPause, rnr_timer
from .numbers import MASK32, expand, later
from .packets import Data, StreamControl
from .queue_pair import FLUSHED, SUCCESS, QueuePair
from .send_side import Built, Packet, nothing
from .small_codings import encode_backlog
from .verdict import ACCEPT, Verdict
from .work_request import COMPLETION_NAMES, RETRY, STATUS_OF_CODE, WorkRequest

if TYPE_CHECKING:
    from .connection import Connection
    from .endpoint import Endpoint

MESSAGE_WINDOW = 1024
MOST_DEMAND = 64
MILLI = 1_000_000


class SendingHalf:
    def __init__(self, endpoint: Endpoint, qp: QueuePair) -> None:
        self.endpoint, self.qp = endpoint, qp
        self.owner: object = self
        self.state = "closed"
        self.connection: Connection | None = None
        self.incarnation = 0
        self.next_msn = 0
        self.next_rqsn = self.credit_limit = self.returned = 0
        self.read_limit = self.peer_timer = 0
        self.requests: deque[WorkRequest] = deque()
        self.failing: tuple[WorkRequest, str] | None = None
        self.waiting: CreditWait | None = None
        self.pause: RnrPause | None = None
        self.refusals = self.rnrs = 0
        self.open_at = 0
        self.err_at: int | None = None
        self.last_progress = 0

    # --- opening and closing (§8.2, §8.4, §8.5) ------------------------------------------------------------------

    @property
    def peer_stream(self) -> int:
        return self.qp.remote_qpn & 0xFFFF

    def try_time(self) -> int:
        """§8.9."""
        return max(125 * MILLI, 4 * (4096 << self.qp.timeout)) if self.qp.timeout else 125 * MILLI

    def control(self, op: Opcode, msn: int = 0, credit_limit: int = 0, done: bool = False) -> None:
        """Queue a stream control message of this half."""
        assert self.connection is not None
        body = StreamControl(self.qp.qpn, self.qp.remote_qpn, self.qp.sq_psn if op == Opcode.STREAM_OPEN else 0,
                             self.incarnation, credit_limit)
        owner = None if op == Opcode.STREAM_CLOSE else self
        self.connection.send_control(op, body, msn, owner, self._closed if done else nothing)

    def waits_to_open(self) -> bool:
        """Whether nothing but a connection is missing."""
        return (self.state == "closed" and bool(self.requests) and self.qp.state == "rts" and self.err_at is None
                and self.failing is None)

    def maybe_open(self, now: int) -> None:
        if not self.waits_to_open() or now < self.open_at:
            return
        connection = self.endpoint.connection_to(self.qp.remote_address, self.qp.remote_qpn, now)
        if connection is None:
            return
        self.connection, self.state = connection, "opening"
        self.incarnation = (self.incarnation + 1) & MASK32
        self.next_rqsn = self.credit_limit = self.returned = 0
        self.waiting = self.pause = None
        self.last_progress = now
        first = next((wr.msn for wr in self.requests if wr.started), self.next_msn)
        self.control(Opcode.STREAM_OPEN, first)

    def on_accept(self, control: StreamControl) -> None:
        assert self.connection is not None
        self.state, self.refusals, self.rnrs = "open", 0, 0
        self.credit_limit = control.credit_limit
        self.read_limit = min(control.rd_atomic, self.qp.rd_atomic)
        self.peer_timer = control.min_rnr_timer
        self.connection.send.producers.append(self)

    def on_refuse(self, now: int) -> None:
        self._detach()
        self.refusals += 1
        if self.qp.timeout and self.refusals > self.qp.retry_cnt and self.requests:
            self.endpoint.qp_error(self.qp, RETRY)
            return
        interval = 4096 << self.qp.timeout if self.qp.timeout else 100 * MILLI
        self.open_at = now + min(4000 * MILLI, max(50 * MILLI, interval))

    def _detach(self) -> None:
        """The half is closed; nothing of it is sent as data again."""
        if self.connection is not None:
            self.connection.send.give_up(self)
        self.connection, self.waiting, self.pause = None, None, None
        self.state = "closed"

    def on_connection_ended(self, failure: bool, now: int) -> None:
        """§4.13: the half is closed; after an orderly end the queue pair errs only if work is left, and later."""
        self._detach()
        if not failure and self.requests and self.requests[0].started:
            self.err_at = now + self.try_time()

    def close(self) -> None:
        """End the half from this side."""
        if self.state in ("opening", "open"):
            assert self.connection is not None
            self.connection.send.give_up(self)
            self.waiting = self.pause = None
            self.state = "closing"
            self.control(Opcode.STREAM_CLOSE, done=True)

    def _closed(self, _: bool) -> None:
        if self.state == "closing":
            self.state, self.connection = "closed", None

    def on_stop(self, control: StreamControl, wire_msn: int, now: int) -> None:
        """§8.6."""
        oldest = self.requests[0].msn if self.requests and self.requests[0].started else self.next_msn
        stopped = expand(wire_msn, oldest)
        self._detach()
        while self.requests and self.requests[0].started and self.requests[0].msn < stopped:
            if self.requests[0].op in ANSWERED and not self.requests[0].answered_all:
                break
            self._complete(self.requests.popleft(), SUCCESS)
        head = self.requests[0] if self.requests else None
        if head is None or not head.started:
            return
        if control.reason == Reason.FAILED and head.msn == stopped:
            self.endpoint.qp_error(self.qp, STATUS_OF_CODE.get(control.code, RETRY))
        else:
            self.err_at = now + self.try_time()

    # --- cutting (§9.1, §9.2) ------------------------------------------------------------------------------------

    def next_packet(self) -> Packet | None:
        if self.state != "open" or self.failing is not None or self.pause is not None:
            return None
        wr = next((wr for wr in self.requests if not wr.cut_all), None)
        if wr is None or self.qp.state not in ("rts", "sqd"):
            return None
        if not wr.started and not self._start(wr):
            return None
        return self._cut(wr)

    def _start(self, wr: WorkRequest) -> bool:
        """Give the message its numbers if it may begin."""
        oldest = next((w.msn for w in self.requests if w.started and not w.sent), self.next_msn)
        reads = sum(w.outstanding for w in self.requests)
        if self.qp.state != "rts" or self.next_msn - oldest >= MESSAGE_WINDOW or (wr.fence and reads):
            return False
        if wr.op in ANSWERED:
            if self.read_limit == 0:
                self.fail(wr, "LOC_QP_OP_ERR" if self.qp.rd_atomic == 0 else "REM_INV_REQ_ERR")
                return False
            if reads >= self.read_limit:
                return False
        elif self.endpoint.memory.local(wr.region, wr.offset, wr.length, False) is None and wr.length:
            self.fail(wr, "LOC_PROT_ERR")
            return False
        if wr.consumes:
            if (self.next_rqsn + self.returned) & MASK32 == self.credit_limit:
                self._wait_for_credit()
                return False
            wr.rqsn = self.next_rqsn
            self.next_rqsn += 1
        if oldest == self.next_msn:
            self.last_progress = self._now()
        wr.msn = self.next_msn
        self.next_msn += 1
        return True

    def _now(self) -> int:
        return self.connection.now if self.connection is not None else 0

    def _wait_for_credit(self) -> None:
        if self.waiting is not None:
            return
        assert self.connection is not None
        timeout = self.connection.send.timeout()
        self.waiting = CreditWait(self.connection.now + timeout, timeout)
        wanted = min(MOST_DEMAND, sum(wr.consumes and not wr.started for wr in self.requests))
        self.control(Opcode.STREAM_BLOCKED, credit_limit=(self.next_rqsn + self.returned + wanted) & MASK32)

    def _cut(self, wr: WorkRequest) -> Packet:
        assert self.connection is not None
        offset = wr.cut
        size = 0 if wr.op in ANSWERED else min(self.connection.payload_mtu, wr.length - offset)
        wr.cut += size
        wr.cut_all = wr.op in ANSWERED or wr.cut >= wr.length
        packet = Packet(self, lambda: self._build(packet, wr, offset, size), nothing, self.peer_stream, wr.msn, wr)
        packet.accepted = lambda as_data: self._accepted(packet, wr, as_data)
        wr.open.append(packet)
        return packet

    def _build(self, packet: Packet, wr: WorkRequest, offset: int, size: int) -> Built:
        data = Data(wr.op, stream=self.peer_stream, msn=wr.msn & MASK32, offset=offset, length=wr.wire_length,
                    va=wr.remote_addr, rkey=wr.rkey, rqsn=wr.rqsn & MASK32, imm=wr.imm, rdslot=wr.msn & MASK32,
                    operand=wr.operand, compare=wr.compare)
        if size:
            region = self.endpoint.memory.local(wr.region, wr.offset + offset, size, False)
            if region is None:
                packet.is_void = True
                self.fail(wr, "LOC_PROT_ERR")
                return Data(Opcode.VOID, stream=self.peer_stream, msn=wr.msn & MASK32), 0
            data.payload = bytes(region.data[wr.offset + offset:wr.offset + offset + size])
        rest = max(0, wr.wire_length - offset - size) if wr.op not in ANSWERED else 0
        mtu = self.connection.payload_mtu if self.connection else 4096
        data.backlog = encode_backlog(-(-rest // mtu))
        flags = (Flag.SE if wr.solicited else 0) | (0 if rest else Flag.LAST)
        return data, flags

    # --- what comes back -----------------------------------------------------------------------------------------

    def _accepted(self, packet: Packet, wr: WorkRequest, as_data: bool) -> None:
        wr.open.remove(packet)
        wr.voided |= not as_data
        self.last_progress = max(self.last_progress, self._now())
        self._step_pause()
        self.check_done()

    def check_done(self) -> None:
        """Completions in posting order; then the failure whose turn it is."""
        while self.requests and self.requests[0].done:
            self._complete(self.requests.popleft(), SUCCESS)
        if self.failing is not None and self.requests and self.requests[0] is self.failing[0]:
            self.endpoint.qp_error(self.qp, self.failing[1])

    def _complete(self, wr: WorkRequest, status: str) -> None:
        if status != SUCCESS or not wr.unsignaled:
            self.qp.complete(wr.wr_id, "send", status, COMPLETION_NAMES[wr.op], wr.local_length)

    def fail(self, wr: WorkRequest, status: str) -> None:
        """§9.12, at the requester."""
        if self.failing is not None and self._index(self.failing[0]) <= self._index(wr):
            return
        self.failing = (wr, status)
        if self.connection is not None:
            for behind in list(self.requests)[self._index(wr):]:
                for packet in behind.open:
                    self.connection.send.make_void(packet)
        self.endpoint.check_soon(self)

    def _index(self, wr: WorkRequest) -> int:
        return next(i for i, other in enumerate(self.requests) if other is wr)

    def flush(self, cause: str | None) -> None:
        """The queue pair leaves RTS: what is done succeeds, the oldest gets the cause, the rest is flushed."""
        while self.requests and self.requests[0].done:
            self._complete(self.requests.popleft(), SUCCESS)
        self.close()
        self.failing, self.err_at = None, None
        status = cause or FLUSHED
        while self.requests:
            self._complete(self.requests.popleft(), status)
            status = FLUSHED

    def on_nak(self, packet: Packet, code: int, arg: int, now: int) -> None:
        wr = packet.tag
        if not isinstance(wr, WorkRequest) or wr not in self.requests or packet.is_void:
            return
        if code in STATUS_OF_CODE:
            self.fail(wr, STATUS_OF_CODE[Nak(code)])
        elif code == Nak.RNR and wr.op in CONSUMING and self.pause is None:
            self._on_rnr(wr, arg, now)

    def _on_rnr(self, wr: WorkRequest, arg: int, now: int) -> None:
        """§8.14, step 1."""
        assert self.connection is not None
        self.rnrs += 1
        if self.qp.rnr_retry != FOR_EVER and self.rnrs > self.qp.rnr_retry:
            self.fail(wr, "RNR_RETRY_EXC_ERR")
            return
        self.pause = RnrPause(wr.msn, now + rnr_timer(arg))
        for behind in list(self.requests)[self._index(wr):]:
            for packet in behind.open:
                self.connection.send.make_void(packet)

    def _step_pause(self) -> None:
        """§8.14, steps 1 to 3: go on when everything that was waited for is accepted."""
        pause = self.pause
        if pause is None or self.connection is None:
            return
        behind = [wr for wr in self.requests if wr.msn >= pause.msn]
        if any(wr.open for wr in behind):
            return
        if pause.step == 1:
            pause.step = 2
            for wr in behind:
                if wr.voided:
                    self._void_anew(wr)
        elif pause.step == 2:
            pause.step = 3

    def _void_anew(self, wr: WorkRequest) -> None:
        assert self.connection is not None
        packet = Packet(self, lambda: (Data(), 0), nothing, self.peer_stream, wr.msn, wr, is_void=True)
        packet.accepted = lambda as_data: self._accepted(packet, wr, as_data)
        wr.open.append(packet)
        self.connection.send.push(packet)

    def on_credit(self, limit: int, now: int) -> None:
        if later(limit, self.credit_limit):
            self.credit_limit, self.waiting, self.rnrs = limit, None, 0
        elif self.waiting is not None:
            self.waiting.confirmed(now, self.qp.rnr_retry, self.peer_timer)

    def on_reclaim(self) -> None:
        """§8.12: return what the queue does not need."""
        needed = min(MOST_DEMAND, sum(wr.consumes and not wr.started for wr in self.requests))
        unused = (self.credit_limit - self.next_rqsn - self.returned) & MASK32
        if self.state == "open" and needed < unused < 1 << 31:
            self.returned += unused - needed
            self.control(Opcode.CREDIT_RETURN, credit_limit=self.returned & MASK32)

    def on_response(self, data: Data) -> Verdict:
        """READ_RESP and ATOMIC_RESP (§9.6)."""
        wr = next((w for w in self.requests if w.outstanding and w.msn & MASK32 == data.rdslot), None)
        if wr is None or (wr.op == Opcode.READ_REQ) != (data.op == Opcode.READ_RESP):
            return ACCEPT
        if data.status:
            self.fail(wr, STATUS_OF_CODE.get(data.status, RETRY))
            return ACCEPT
        if data.op == Opcode.ATOMIC_RESP:
            return self._store(wr, 0, data.original.to_bytes(8, sys.byteorder))
        assert self.connection is not None
        mtu = self.connection.payload_mtu
        if (data.length != wr.length or data.offset % mtu or (wr.length and data.offset >= wr.length)
                or len(data.payload) != min(mtu, wr.length - data.offset)):
            self.endpoint.counters["drop_malformed"] += 1
            self.fail(wr, "REM_OP_ERR")
            return ACCEPT
        return self._store(wr, data.offset, data.payload)

    def _store(self, wr: WorkRequest, offset: int, payload: bytes) -> Verdict:
        at = wr.offset + offset
        region = self.endpoint.memory.local(wr.region, at, len(payload), write=True)
        if region is None and payload:
            self.fail(wr, "LOC_PROT_ERR")
            return ACCEPT
        if region is not None:
            region.data[at:at + len(payload)] = payload
        self.last_progress = max(self.last_progress, self._now())
        wr.answered += len(payload)
        wr.answered_all = wr.answered >= wr.local_length
        self.check_done()
        return ACCEPT

    # --- time ----------------------------------------------------------------------------------------------------

    def on_timer(self, now: int) -> None:
        if self.err_at is not None and now >= self.err_at:
            self.err_at = None
            self.endpoint.qp_error(self.qp, RETRY)
            return
        silent_at = self._silent_at()
        if silent_at is not None and now >= silent_at:
            self.endpoint.qp_error(self.qp, RETRY)
            return
        if self.pause is not None and self.pause.step == 3 and now >= self.pause.resume_at:
            for wr in self.requests:
                if wr.started and wr.voided:
                    wr.again()
            self.pause = None
        if self.waiting is not None:
            self._on_wait(self.waiting, now)
        self.maybe_open(now)

    def _silent_at(self) -> int | None:
        """When the queue pair errs because its peer says nothing (§8.9)."""
        if not self.qp.timeout or self.connection is None or self.qp.state != "rts":
            return None
        if not any(wr.open or wr.outstanding for wr in self.requests):
            return None
        quiet_since = max(self.last_progress, self.connection.last_received)
        return quiet_since + (self.qp.retry_cnt + 1) * self.try_time()

    def _on_wait(self, waiting: CreditWait, now: int) -> None:
        if waiting.give_up_at is not None and now >= waiting.give_up_at:
            wr = next(wr for wr in self.requests if not wr.started)
            self.waiting = None
            self.fail(wr, "RNR_RETRY_EXC_ERR")
        elif now >= waiting.ask_at and self.connection is not None:
            waiting.asked(now)
            self.connection.ask_limits(self.peer_stream)

    def deadlines(self) -> list[int]:
        times = [self.err_at, self._silent_at(),
                 self.pause.resume_at if self.pause and self.pause.step == 3 else None]
        if self.waiting is not None:
            times += [self.waiting.ask_at, self.waiting.give_up_at]
        if self.state == "closed" and self.requests and self.open_at:
            times.append(self.open_at)
        return [time for time in times if time is not None]
