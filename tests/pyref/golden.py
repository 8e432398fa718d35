"""Golden vectors of the wire format: `python3 -m pyref.golden` (from tests/) writes tests/data/wire/golden.json, and
golden_mode2.json beside it.

Each vector has a name, the datagram in hexadecimal, and its decoded fields. Bytes are hexadecimal strings, the vector
of a path block too, word 0 first; all other fields are integers. The file is a function of this module
alone.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any, Iterator

from .codec import encode
from .codepoints import (ANSWERED, ATOMICS, MAGIC, REQUESTS, STREAM_CONTROL, Flag, Nak, Opcode, PacketType, Reason)
from .packets import (Ack, Body, Close, CreditTlv, Data, Datagram, Header, Init, KeyShare, NakTlv, PathBlock, Port,
                      PortStatusTlv, Probe, ProbeAck, RawTlv, Reset, Retry, StreamControl, VersionList)
from .small_codings import encode_backlog, encode_rate

OUTPUT = Path(__file__).resolve().parents[1] / "data/wire/golden.json"
MOST32 = 0xFFFFFFFF
MOST64 = 0xFFFFFFFFFFFFFFFF
V4 = bytes(10) + b"\xff\xff" + bytes((127, 0, 0, 2))
V6 = bytes.fromhex("fe800000000000000123456789abcdef")
IDENTITY = bytes(range(16))
TOKEN = bytes(range(240, 256))
COOKIE = bytes(range(0x60, 0x74))

Vector = tuple[str, Datagram]


def _datagram(kind: PacketType, body: Body, flags: int = 0, **header: int) -> Datagram:
    header = {"dcid": 0x01020304, "pseq": 0x2A, "ts": 0x1000, **header}
    return Datagram(Header(kind, flags, **header), body)


def _init(**changes: Any) -> Init:
    init = Init(MAGIC, 1, 1, 1, 0, 0x11223344, IDENTITY, TOKEN, 0x8877665544332211, 61440, 4096, 4, 65519, 16384,
                0xDEADBEEF, 0xCAFEBABE, 212992, 0, [Port(V4, 104, 0)], 4156)
    return dataclasses.replace(init, **changes)


def _handshake() -> Iterator[Vector]:
    init, ack = PacketType.INIT, PacketType.INIT_ACK
    yield "init", _datagram(init, _init(), dcid=0, pseq=0)
    yield "init smallest", _datagram(init, _init(payload_mtu=512, cpsn_window=64, max_paths=1, size=1200), dcid=0)
    yield "init eight ports", _datagram(init, _init(ports=[Port(V6, 64, 400000)] + [Port(V4, 128, MOST32)] * 7,
                                                    size=1200), dcid=0)
    yield "init of another magic", _datagram(init, _init(magic=0x52443242, ports=[], size=1200), dcid=0)
    yield "init prefix zero", _datagram(init, _init(ports=[Port(V6, 0, 1)], size=1216), dcid=0, pseq=MOST32, ts=MOST32)
    share = KeyShare(bytes(range(0x20, 0x40)), bytes(range(0x40, 0x48)))
    both = {"security": 5, "size": 4168}  # 72 bytes more than the payload where mode 2 is offered
    yield "init with a KEY_SHARE", _datagram(init, _init(**both, key_share=share), Flag.EXT, dcid=0, pseq=0)
    yield "init with a COOKIE", _datagram(init, _init(cookie=COOKIE), Flag.EXT, dcid=0, pseq=1)
    yield "init with KEY_SHARE and COOKIE", _datagram(
        init, _init(**both | {"security": 4}, key_share=share, cookie=bytes(range(64))), Flag.EXT, dcid=0, pseq=1)
    yield "init with unknown TLVs", _datagram(init, _init(cookie=b"c", tlvs=[RawTlv(77, b"abc"), RawTlv(255)], size=1200),
                                              Flag.EXT, dcid=0, pseq=1)
    yield "init with only END", _datagram(init, _init(size=1200), Flag.EXT, dcid=0, pseq=1)
    yield "init_ack of mode 0 with unknown TLVs", _datagram(ack, _init(security=0, tlvs=[RawTlv(200, b"?")], size=1200),
                                                            Flag.EXT)
    yield "retry", _datagram(PacketType.RETRY, Retry(0x8877665544332211, COOKIE), pseq=0)
    yield "retry longest cookie", _datagram(PacketType.RETRY, Retry(MOST64, bytes(range(64))), pseq=0)
    yield "retry with a TLV", _datagram(PacketType.RETRY, Retry(1, b"c", [RawTlv(99, b"x")]), Flag.EXT, pseq=0)
    yield "init_ack", _datagram(ack, _init(security=0))
    yield "init_ack existing", _datagram(ack, _init(security=0, flags=1, known_cid=0x55667788, size=1200), pseq=0)
    yield "version", _datagram(PacketType.VERSION, VersionList([1]), dcid=0, pseq=0)
    yield "version most", _datagram(PacketType.VERSION, VersionList(list(range(16))), dcid=0, pseq=0)
    yield "version with a TLV", _datagram(PacketType.VERSION, VersionList([1], [RawTlv(99, b"x")]), Flag.EXT)


def _request(op: Opcode, **changes: Any) -> Data:
    """A one-packet message of the opcode with all fields of its extension set."""
    data = Data(op, cpsn=0x100, stream=0x11, msn=7, length=8 if op in ANSWERED else 5)
    if op in (Opcode.WRITE, Opcode.WRITE_IMM) or op in ANSWERED:
        data.va, data.rkey = 0x00007F0012345678, 0xABCD
    if op in (Opcode.WRITE_IMM, Opcode.SEND, Opcode.SEND_IMM, Opcode.SEND_INV):
        data.rqsn = 3
    if op in (Opcode.WRITE_IMM, Opcode.SEND_IMM, Opcode.SEND_INV):
        data.imm = 0xC0FFEE01
    if op in ANSWERED:
        data.rdslot = 0x77
    if op in ATOMICS:
        data.operand = 0x1122334455667788
    if op == Opcode.COMPARE_SWAP:
        data.compare = 0x99AABBCCDDEEFF00
    if op not in ANSWERED:
        data.payload = b"hello"
    return dataclasses.replace(data, **changes)


def _operations() -> Iterator[Vector]:
    data = PacketType.DATA
    for op in sorted(REQUESTS):
        name = op.name.lower()
        yield name, _datagram(data, _request(op), Flag.AR | Flag.LAST, path=1)
        yield f"{name} repeated, all flags", _datagram(data, _request(op, backlog=255), 0xFA, path=63, epoch=255)
        if op not in ANSWERED:
            yield f"{name} empty", _datagram(data, _request(op, length=0, payload=b""), Flag.LAST | Flag.SE)
    yield "write full packet in the middle", _datagram(
        data, _request(Opcode.WRITE, offset=4096, length=1 << 31, payload=bytes(range(256)) * 16,
                       backlog=encode_backlog((1 << 19) - 2)), pseq=MOST32, ts=MOST32, dcid=MOST32)
    yield "write_imm extreme values", _datagram(
        data, _request(Opcode.WRITE_IMM, cpsn=MOST32, stream=0xFFFF, msn=MOST32, offset=MOST32 - 1, length=MOST32,
                       va=MOST64, rkey=MOST32, rqsn=MOST32, imm=MOST32, payload=b"\xff"))
    yield "compare_swap extreme values", _datagram(
        data, _request(Opcode.COMPARE_SWAP, va=MOST64, rkey=MOST32, rdslot=MOST32, operand=MOST64, compare=MOST64))
    yield "read_req longest", _datagram(data, _request(Opcode.READ_REQ, length=1 << 31))
    yield "write with TLVs", _datagram(data, _request(Opcode.WRITE, tlvs=[RawTlv(77, b"abc"), RawTlv(255)]), Flag.EXT)
    yield "send with only END", _datagram(data, _request(Opcode.SEND), Flag.EXT)


def _responses() -> Iterator[Vector]:
    data = PacketType.DATA
    part = Data(Opcode.READ_RESP, cpsn=0x200, stream=0x11, offset=4096, length=4100, rdslot=0x77, payload=b"tail")
    yield "read_resp", _datagram(data, part)
    yield "read_resp empty", _datagram(data, dataclasses.replace(part, offset=0, length=0, payload=b""))
    for code in (Nak.ACCESS, Nak.UNKNOWN_STREAM):
        failed = dataclasses.replace(part, offset=0, status=code, payload=b"")
        yield f"read_resp failed with {code.name}", _datagram(data, failed)
    atomic = Data(Opcode.ATOMIC_RESP, cpsn=0x201, stream=0x11, rdslot=0x78, original=0x0123456789ABCDEF)
    yield "atomic_resp", _datagram(data, atomic)
    yield "atomic_resp extreme values", _datagram(data, dataclasses.replace(atomic, rdslot=MOST32, original=MOST64))
    yield "void of a request", _datagram(data, Data(Opcode.VOID, cpsn=0x202, stream=0x11, msn=7), Flag.RTX)
    yield "void of a response", _datagram(data, Data(Opcode.VOID, cpsn=0x203))
    yield "void with TLVs", _datagram(data, Data(Opcode.VOID, cpsn=0x204, tlvs=[RawTlv(4, b"??")]), Flag.EXT)


def _stream_control() -> Iterator[Vector]:
    data = PacketType.DATA
    both = {"src_qpn": 0x010011, "dst_qpn": 0x000012, "incarnation": 1}
    special: dict[Opcode, dict[str, int]] = {
        Opcode.STREAM_OPEN: {"sq_psn": 0x123456}, Opcode.STREAM_BLOCKED: {"credit_limit": 9},
        Opcode.STREAM_ACCEPT: {"credit_limit": 4, "rd_atomic": 16, "min_rnr_timer": 12},
        Opcode.STREAM_REFUSE: {"reason": Reason.NOT_READY}, Opcode.STREAM_CLOSE: {},
        Opcode.STREAM_STOP: {"reason": Reason.FAILED, "code": Nak.ACCESS}, Opcode.CREDIT_RETURN: {"credit_limit": 3},
    }
    for op in sorted(STREAM_CONTROL):
        msn = 5 if op in (Opcode.STREAM_OPEN, Opcode.STREAM_STOP) else 0
        control = StreamControl(**both, **special[op])
        yield op.name.lower(), _datagram(data, Data(op, cpsn=0x300, stream=0x12, msn=msn, length=32, control=control))
    most = StreamControl(0xFFFFFF, 0xFFFFFF, 0xFFFFFF, MOST32, MOST32, 255, 31, 5, 10)
    yield "stream_stop extreme values", _datagram(
        data, Data(Opcode.STREAM_STOP, cpsn=MOST32, stream=0xFFFF, msn=MOST32, length=32, control=most))
    for reason in Reason:
        control = StreamControl(**both, reason=reason)
        yield f"stream_refuse {reason.name}", _datagram(
            data, Data(Opcode.STREAM_REFUSE, cpsn=0x301, stream=0x12, length=32, control=control))
    control = StreamControl(**both, sq_psn=1)
    yield "stream_open with a TLV", _datagram(
        data, Data(Opcode.STREAM_OPEN, stream=0x12, length=32, control=control, tlvs=[RawTlv(9, b"z")]), Flag.EXT)


def _acks() -> Iterator[Vector]:
    ack = PacketType.ACK
    block = PathBlock(1, encode_rate(1_250_000_000), 0x2A, 0b1011, 3, 1, 0x1000, 31)
    full = PathBlock(63, 0xFFFF, MOST32, (1 << 256) - 1, MOST32, MOST32, MOST32, 0xFFFF)
    yield "ack without blocks", _datagram(ack, Ack(0x101, 0x4101))
    yield "ack one block", _datagram(ack, Ack(0x101, 0x4101, 5, [block]))
    words = sum(word << 64 * i for i, word in enumerate((1, 2 << 60, 3, 0x8000000000000000)))
    yield "ack vector words", _datagram(ack, Ack(0x101, 0x4101, 0, [dataclasses.replace(block, vector=words)]))
    yield "ack extreme values", _datagram(ack, Ack(MOST32, MOST32, 127, [full] * 4), pseq=MOST32, path=63)
    for code in list(Nak)[1:]:
        yield f"ack nak {code.name}", _datagram(ack, Ack(0x101, 0x4101, naks=[NakTlv(0x103, code, 12 * (code == 3))]))
    yield "ack credit", _datagram(ack, Ack(0x101, 0x4101, 0, [block], credits=[CreditTlv(0x11, 1, 4)]))
    yield "ack reclaim", _datagram(ack, Ack(0x101, 0x4101, reclaims=[0x11]))
    yield "ack port status", _datagram(ack, Ack(0x101, 0x4101, port_status=PortStatusTlv(0b101, 7)))
    yield "ack unknown TLVs", _datagram(ack, Ack(0x101, 0x4101, unknown=[RawTlv(4, b"abc"), RawTlv(200)]))
    yield "ack everything", _datagram(ack, Ack(
        0x101, 0x4101, 127, [full] * 4, [NakTlv(0x103 + i, Nak.ACCESS) for i in range(16)],
        [CreditTlv(0x10 + i, i, MOST32) for i in range(64)], list(range(0x20, 0x30)), PortStatusTlv(MOST32, MOST32)))


def _others() -> Iterator[Vector]:
    probe = PacketType.PROBE
    yield "probe keepalive", _datagram(probe, Probe(0x1122334455667788), Flag.AR)
    yield "probe for a stream", _datagram(probe, Probe(0x1122334455667788, 0, [0x11]), Flag.AR, path=2)
    yield "probe for 64 streams", _datagram(probe, Probe(MOST64, 0, list(range(0x10, 0x50))), Flag.AR)
    yield "probe challenge", _datagram(probe, Probe(1, 1, [], 4156 - 32), path=3, epoch=1)
    yield "probe of another kind", _datagram(probe, Probe(0, 255, [0xFFFF]))
    yield "probe_ack", _datagram(PacketType.PROBE_ACK, ProbeAck(0x1122334455667788))
    yield "probe_ack with a TLV", _datagram(PacketType.PROBE_ACK, ProbeAck(MOST64, [RawTlv(50, bytes(255))]), Flag.EXT)
    yield "close", _datagram(PacketType.CLOSE, Close(0x101, 0))
    yield "close extreme values", _datagram(PacketType.CLOSE, Close(MOST32, MOST32))
    yield "close_ack", _datagram(PacketType.CLOSE_ACK, Close(0x101, 0))
    yield "close_ack with EXT and no TLV", _datagram(PacketType.CLOSE_ACK, Close(0x101, 0), Flag.EXT)
    yield "reset", _datagram(PacketType.RESET, Reset(TOKEN))
    yield "reset with a TLV", _datagram(PacketType.RESET, Reset(bytes(16), [RawTlv(60, b"")]), Flag.EXT)


def vectors() -> list[Vector]:
    """All vectors, in the order of the file."""
    parts = (_handshake, _operations, _responses, _stream_control, _acks, _others)
    return [vector for part in parts for vector in part()]


def words(vector: int) -> str:
    """The four words of a path block's vector in the order of the wire."""
    return "".join(f"{vector >> 64 * i & MOST64:016x}" for i in range(4))


def plain(value: Any) -> Any:
    """A value that JSON can carry."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: words(item) if key == "vector" else plain(item) for key, item in value.items()}
    return value if value is None else int(value)


def fields(datagram: Datagram) -> dict[str, Any]:
    """Header and body; an INIT without TLVs does not speak of them."""
    body = plain(dataclasses.asdict(datagram.body))
    if isinstance(datagram.body, Init):
        body = {name: value for name, value in body.items()
                if value or name not in ("key_share", "cookie", "tlvs")}
    return {"header": plain(dataclasses.asdict(datagram.header)), "body": body}


def text() -> str:
    """The whole file; one vector to a line."""
    lines = []
    for name, datagram in vectors():
        entry = {"name": name, "type": PacketType(datagram.header.type).name, "hex": encode(datagram).hex(),
                 "fields": fields(datagram)}
        lines.append(json.dumps(entry))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def main() -> None:
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(text())
    print(f"{len(vectors())} vectors in {OUTPUT}")
    from . import golden_mode2  # that module is built on this one
    golden_mode2.OUTPUT.write_text(golden_mode2.text())
    print(f"{len(golden_mode2.conversations())} conversations of mode 2 in {golden_mode2.OUTPUT}")


if __name__ == "__main__":
    main()
