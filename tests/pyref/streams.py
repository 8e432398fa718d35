"""Stream control on arrival (§8.3–§8.6, §8.11): functions that a connection hands its packets to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .codepoints import MAX_PORTS, Opcode, Reason
from .numbers import later
from .packets import Data, StreamControl
from .queue_pair import QueuePair
from .receiving_half import ReceivingHalf

if TYPE_CHECKING:
    from .connection import Connection
    from .sending_half import SendingHalf

V4_PREFIX = bytes(10) + b"\xff\xff"
LINK_LOCAL = b"\xfe\x80"

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
        if half is None or not _is_current(half, connection, control):
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


def _is_current(half: SendingHalf, connection: Connection, control: StreamControl) -> bool:
    """Whether a message for a sending half means it as it is now (§8.1-3)."""
    return (half.connection is connection and half.incarnation == control.incarnation
            and half.qp.remote_qpn == control.src_qpn)


def receiving(connection: Connection, qp: QueuePair | None, control: StreamControl) -> ReceivingHalf | None:
    """The open half that a message of its sender means."""
    half = qp.receiving if qp is not None else None
    if half is None or half.connection is not connection or half.incarnation != control.incarnation:
        return None
    return half if half.qp.remote_qpn == control.src_qpn else None


def _refuse(connection: Connection, control: StreamControl, reason: Reason) -> None:
    answer = StreamControl(control.dst_qpn, control.src_qpn, 0, control.incarnation, reason=reason)
    connection.send_control(Opcode.STREAM_REFUSE, answer)


def _can_be_peer(destination: bytes, connection: Connection) -> bool:
    """Whether a destination GID can be the peer's (§8.3). The peers of this program are on its own host, and so is
    every address of the loopback range."""
    peer = connection.peer_wire
    if destination in connection.peer_addresses or len(connection.init.ports) == MAX_PORTS:
        return True
    kinds = [(address[:12] == V4_PREFIX, address[:2] == LINK_LOCAL) for address in (destination, peer)]
    local = all(address[:13] == V4_PREFIX + b"\x7f" for address in (destination, peer))
    return kinds[0] != kinds[1] or local


def _open(connection: Connection, qp: QueuePair | None, control: StreamControl, msn: int) -> None:
    """§8.3, row by row."""
    if qp is None:
        return _refuse(connection, control, Reason.GONE)
    if qp.state not in RECEIVING_STATES or connection.endpoint.ending:
        return _refuse(connection, control, Reason.NOT_READY)
    if (qp.remote_qpn != control.src_qpn or qp.rq_psn != control.sq_psn
            or not _can_be_peer(qp.remote_address, connection)):
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
    if half is not None and _is_current(half, connection, control) and half.state != "closing":
        if half.state == "opening":
            half.on_accept(control)
        return
    answer = StreamControl(control.dst_qpn, control.src_qpn, 0, control.incarnation)
    connection.send_control(Opcode.STREAM_CLOSE, answer)


def _close(half: ReceivingHalf) -> None:
    """§8.5; a failed message that is the oldest takes effect first, without waiting for responses (§8.5-7)."""
    if half.failed is not None and half.failed.msn == half.oldest:
        half.connection.endpoint.half_failed(half)
    else:
        half.end()


def stop(half: ReceivingHalf, reason: Reason, code: int = 0) -> None:
    """The receiver ends the half (§8.6)."""
    qp = half.qp
    answer = StreamControl(qp.qpn, qp.remote_qpn, 0, half.incarnation, reason=reason, code=code)
    half.end()
    half.connection.send_control(Opcode.STREAM_STOP, answer, half.oldest)
