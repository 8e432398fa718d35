"""Body of DATA (§3.4) and the payload of stream control (§3.5)."""

import struct

from .codepoints import (BITS24, HEADER_BYTES, SIZED, STREAM_CONTROL, STREAM_CONTROL_BYTES, Drop, Flag,
                         Nak, Opcode, Reason)
from .packets import Data, RawTlv, StreamControl
from .tlv import decode_until_end, encode_list

FIXED = struct.Struct("!IHBBIII")
OP_AT = 6  # of the opcode in the body
CONTROL = struct.Struct("!IIIIIBBBB8x")

# Extension of each opcode: its layout, and the members in their order on the wire.
EXTENSIONS: dict[int, tuple[struct.Struct, tuple[str, ...]]] = {
    Opcode.WRITE: (struct.Struct("!QI"), ("va", "rkey")),
    Opcode.WRITE_IMM: (struct.Struct("!QIII"), ("va", "rkey", "rqsn", "imm")),
    Opcode.SEND: (struct.Struct("!I4x"), ("rqsn",)),
    Opcode.SEND_IMM: (struct.Struct("!II"), ("rqsn", "imm")),
    Opcode.SEND_INV: (struct.Struct("!II"), ("rqsn", "imm")),
    Opcode.READ_REQ: (struct.Struct("!QII"), ("va", "rkey", "rdslot")),
    Opcode.READ_RESP: (struct.Struct("!IB3x"), ("rdslot", "status")),
    Opcode.COMPARE_SWAP: (struct.Struct("!QIIQQ"), ("va", "rkey", "rdslot", "operand", "compare")),
    Opcode.FETCH_ADD: (struct.Struct("!QIIQ8x"), ("va", "rkey", "rdslot", "operand")),
    Opcode.ATOMIC_RESP: (struct.Struct("!IB3xQ"), ("rdslot", "status", "original")),
}
NOTHING: tuple[struct.Struct, tuple[str, ...]] = (struct.Struct(""), ())


def encode_control(control: StreamControl) -> bytes:
    return CONTROL.pack(control.src_qpn, control.dst_qpn, control.sq_psn, control.incarnation, control.credit_limit,
                        control.rd_atomic, control.min_rnr_timer, control.reason, control.code)


def decode_control(payload: bytes) -> StreamControl | None:
    """The payload of stream control; None if it is malformed (§3.5-3), which concerns the packet, not the datagram."""
    control = StreamControl(*CONTROL.unpack(payload))
    if max(control.src_qpn, control.dst_qpn, control.sq_psn) > BITS24 or control.min_rnr_timer > 31:
        return None
    return None if control.reason > max(Reason) or control.code > max(Nak) else control


def encode_data(data: Data, flags: int) -> bytes:
    """The body behind the common header. With EXT the list of TLVs is closed by END."""
    layout, members = EXTENSIONS.get(data.op, NOTHING)
    out = FIXED.pack(data.cpsn, data.stream, data.op, data.backlog, data.msn, data.offset, data.length)
    out += layout.pack(*(getattr(data, member) for member in members))
    if flags & Flag.EXT:
        out += encode_list(data.tlvs + [RawTlv(0)])
    return out + (data.payload if data.control is None else encode_control(data.control))


def encoded_bytes(data: Data, trailer: int) -> int:
    """Size of the whole datagram, trailer included, without TLVs."""
    extension = EXTENSIONS.get(data.op, NOTHING)[0].size
    payload = STREAM_CONTROL_BYTES if data.control is not None else len(data.payload)
    return HEADER_BYTES + FIXED.size + extension + payload + trailer


def clear_bytes(body: bytes, flags: int) -> int:
    """Where the payload begins in a body of DATA, of which nothing else has been checked; a Drop if that cannot be told
    (§10.3.5-2)."""
    if len(body) < FIXED.size or body[OP_AT] not in Opcode.__members__.values():
        raise Drop("drop_malformed")
    at = FIXED.size + EXTENSIONS.get(body[OP_AT], NOTHING)[0].size
    if flags & Flag.EXT:
        at += decode_until_end(body[at:])[1]
    if at > len(body):
        raise Drop("drop_malformed")
    return at


def decode_data(body: bytes, flags: int) -> Data:
    """The body behind the common header and before the trailer."""
    if len(body) < FIXED.size:
        raise Drop("drop_malformed")
    cpsn, stream, op, backlog, msn, offset, length = FIXED.unpack_from(body)
    if op not in Opcode.__members__.values():
        raise Drop("drop_malformed")
    data = Data(Opcode(op), cpsn, stream, backlog, msn, offset, length)
    layout, members = EXTENSIONS.get(op, NOTHING)
    at = FIXED.size + layout.size
    if len(body) < at:
        raise Drop("drop_malformed")
    for member, value in zip(members, layout.unpack_from(body, FIXED.size)):
        setattr(data, member, value)
    if flags & Flag.EXT:
        data.tlvs, used = decode_until_end(body[at:])
        at += used
    data.payload = bytes(body[at:])
    _check_payload(data)
    return data


def _check_payload(data: Data) -> None:
    """The remaining rules at the end of §3.4."""
    if data.status > max(Nak):
        raise Drop("drop_malformed")
    if data.op in STREAM_CONTROL:
        if len(data.payload) != STREAM_CONTROL_BYTES:
            raise Drop("drop_malformed")
        data.control = decode_control(data.payload)
        data.payload = data.payload if data.control is None else b""
    elif data.op in SIZED:
        if data.offset + len(data.payload) > data.length:
            raise Drop("drop_malformed")
    elif data.payload:
        raise Drop("drop_malformed")
