"""Stream control on arrival (§8.3–§8.6, §8.11): functions that a connection hands its packets to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .codepoints import Opcode, Reason
from .numbers import later
from .packets import Data, StreamControl
from .queue_pair import QueuePair
from .receiving_half import ReceivingHalf

if TYPE_CHECKING:
    from .connection import Connection

RECEIVING_STATES = ("rtr", "rts", "sqd")


def handle(connection: Connection, data: Data) -> None:
    """One stream control message; it is accepted whatever it says."""
    assert data.control is not None
    control = data.control
    qp = connection.endpoint.find_qp(control.dst_qpn)
    if data.op == Opcode.STREAM_OPEN:
        _open(connection, qp, control, data.msn)
    elif data.op == Opcode.STREAM_ACCEPT:
        _accept(connection, qp, control)
    elif data.op in (Opcode.STREAM_REFUSE, Opcode.STREAM_STOP):
        half = qp.sending if qp is not None else None
        if half is None or half.connection is not connection or half.incarnation != control.incarnation:
            return
        if data.op == Opcode.STREAM_REFUSE and half.state == "opening":
            half.on_refuse(connection.now)
        elif data.op == Opcode.STREAM_STOP and half.state in ("opening", "open"):
            half.on_stop(control, data.msn, connection.now)
    else:
        half = receiving(connection, qp, control)
        if half is not None and data.op == Opcode.STREAM_CLOSE:
            _close(half)
        elif half is not None and data.op == Opcode.STREAM_BLOCKED:
            half.asked(connection.now)


def receiving(connection: Connection, qp: QueuePair | None, control: StreamControl) -> ReceivingHalf | None:
    """The open half that a message of its sender means."""
    half = qp.receiving if qp is not None else None
    if half is None or half.connection is not connection or half.incarnation != control.incarnation:
        return None
    return half if half.qp.remote_qpn == control.src_qpn else None


def _refuse(connection: Connection, control: StreamControl, reason: Reason) -> None:
    answer = StreamControl(control.dst_qpn, control.src_qpn, 0, control.incarnation, reason=reason)
    connection.send_control(Opcode.STREAM_REFUSE, answer)


def _open(connection: Connection, qp: QueuePair | None, control: StreamControl, msn: int) -> None:
    """§8.3, row by row."""
    if qp is None:
        return _refuse(connection, control, Reason.GONE)
    if qp.state not in RECEIVING_STATES or connection.endpoint.ending:
        return _refuse(connection, control, Reason.NOT_READY)
    if (qp.remote_qpn != control.src_qpn or qp.rq_psn != control.sq_psn
            or qp.remote_address not in connection.peer_addresses):
        return _refuse(connection, control, Reason.MISMATCH)
    half = qp.receiving
    if half is not None and half.connection is connection and later(half.incarnation, control.incarnation):
        return None
    if half is not None:
        half.end()
    qp.receiving = ReceivingHalf(qp, connection, control.incarnation, msn)
    answer = StreamControl(qp.qpn, control.src_qpn, 0, control.incarnation, qp.receiving.granted, qp.rd_atomic,
                           qp.min_rnr_timer)
    connection.send_control(Opcode.STREAM_ACCEPT, answer)
    return None


def _accept(connection: Connection, qp: QueuePair | None, control: StreamControl) -> None:
    """§8.4; an ACCEPT for a half that is not current is answered with CLOSE."""
    half = qp.sending if qp is not None else None
    if (half is not None and half.connection is connection and half.incarnation == control.incarnation
            and half.state == "opening"):
        half.on_accept(control)
        return
    answer = StreamControl(control.dst_qpn, control.src_qpn, 0, control.incarnation)
    connection.send_control(Opcode.STREAM_CLOSE, answer)


def _close(half: ReceivingHalf) -> None:
    """§8.5; if a failed message is the oldest, its queue pair has the failure although nobody asks any more."""
    qp, failed = half.qp, half.failed
    is_turn = failed is not None and failed.msn == half.oldest
    half.end()
    if is_turn:
        if failed is not None and failed.receive_status is not None and qp.receives:
            qp.complete_receive(failed.receive_status)
        half.connection.endpoint.qp_error(qp, None)


def stop(half: ReceivingHalf, reason: Reason, code: int = 0) -> None:
    """The receiver ends the half (§8.6)."""
    qp = half.qp
    answer = StreamControl(qp.qpn, qp.remote_qpn, 0, half.incarnation, reason=reason, code=code)
    half.end()
    half.connection.send_control(Opcode.STREAM_STOP, answer, half.oldest)
