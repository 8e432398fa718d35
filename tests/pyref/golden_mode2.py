"""Golden conversations of mode 2 (§10.3): `python3 -m pyref.golden` writes them to tests/data/wire/golden_mode2.json.

A conversation has the inputs of both ends (private keys, pre-shared key), everything that is derived from them, step by
step, and its datagrams in order. A sealed datagram has, beside its bytes: `clear`, the datagram before it was sealed,
without a trailer; `aad_bytes`, how many of them are associated data; `keys`, by which name of `derived` it was sealed;
`pseq`, the full number; `nonce`. Bytes are hexadecimal strings. The file is a function of this module alone.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any, Iterator

from .codec import encode, encode_open
from .codepoints import HEADER_BYTES, TAG_BYTES, TRAILER_BYTES, Flag, Nak, Opcode, PacketType, Reason
from .data_codec import clear_bytes
from .golden import COOKIE, IDENTITY, TOKEN, V4, fields
from .key_schedule import PhaseKeys, agree, key_id, schedule, transcript
from .numbers import MASK32
from .packets import (Ack, Body, Close, CreditTlv, Data, Datagram, Header, Init, KeyShare, NakTlv, PathBlock, Port, Probe,
                      ProbeAck, RawTlv, Reset, Retry, StreamControl)
from .protection import seal
from .x25519 import public_key

OUTPUT = Path(__file__).resolve().parents[1] / "data/wire/golden_mode2.json"
# The keys of RFC 7748 §6.1.
INITIATOR_PRIVATE = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
ACCEPTOR_PRIVATE = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
PSK = bytes(range(0x80, 0xA0))
INITIATOR_CPSN, ACCEPTOR_CPSN = 0x100, 0xDEADBEEF
INITIATOR_PSEQ, ACCEPTOR_PSEQ = 0xFFFFFFFE, 0x2A  # the first wraps soon
NONCE = 0x8877665544332211
PAYLOAD_MTU, SIZE = 1024, 1200
QPNS = {"src_qpn": 0x010011, "dst_qpn": 0x000012}

Entry = dict[str, Any]


class Conversation:
    def __init__(self, psk: bytes | None, offer: int, initiator_cid: int, acceptor_cid: int) -> None:
        self.psk, self.offer, self.initiator_cid, self.acceptor_cid = psk, offer, initiator_cid, acceptor_cid
        self.keys: dict[str, PhaseKeys] = {}
        self.derived: Entry = {}
        self.entries: list[Entry] = []

    def _init(self, initiator: bool, **changes: Any) -> Init:
        private = INITIATOR_PRIVATE if initiator else ACCEPTOR_PRIVATE
        init = Init(magic=0x6D524F43, security=self.offer, scid=self.initiator_cid if initiator else self.acceptor_cid,
                    endpoint_id=IDENTITY if initiator else TOKEN, reset_token=TOKEN if initiator else IDENTITY, nonce=NONCE,
                    listen_port=61440 if initiator else 61441, payload_mtu=PAYLOAD_MTU, max_paths=4, max_streams=65519,
                    cpsn_window=16384, first_cpsn=INITIATOR_CPSN if initiator else ACCEPTOR_CPSN,
                    first_pseq=INITIATOR_PSEQ if initiator else ACCEPTOR_PSEQ, receive_buffer=212992,
                    ports=[Port(V4, 104)], size=SIZE, key_share=KeyShare(public_key(private), key_id(self.psk)))
        return dataclasses.replace(init, **changes)

    def in_clear(self, name: str, initiator: bool, kind: PacketType, body: Body, flags: int = 0, pseq: int = 0,
                 dcid: int | None = None) -> bytes:
        """With a CRC in every mode (§10.3.3-1)."""
        to = (self.acceptor_cid if initiator else self.initiator_cid) if dcid is None else dcid
        datagram = Datagram(Header(kind, flags, 0, 0, to, pseq, 0x1000), body)
        raw = encode(datagram)
        self._enter(name, initiator, datagram, raw, {})
        return raw

    def _enter(self, name: str, initiator: bool, datagram: Datagram, raw: bytes, sealed: Entry) -> None:
        self.entries.append({"name": name, "from": "initiator" if initiator else "acceptor",
                             "type": PacketType(datagram.header.type).name, "hex": raw.hex(), **sealed,
                             "fields": fields(datagram)})

    def sealed(self, name: str, initiator: bool, kind: PacketType, body: Body, pseq: int, flags: int = 0, path: int = 0,
               phase: int = 0) -> None:
        direction = "i2a" if initiator else "a2i"
        label = direction + (f"_phase_{phase}" if phase else "")
        keys = self.keys[label]
        to = self.acceptor_cid if initiator else self.initiator_cid
        header = Header(kind, flags | (Flag.EPH if phase & 1 else 0), path, 0, to, pseq & MASK32, 0x1000)
        datagram = Datagram(header, body)
        clear = encode_open(datagram, TAG_BYTES)
        is_data = kind == PacketType.DATA
        at = HEADER_BYTES + clear_bytes(clear[HEADER_BYTES:], header.flags) if is_data else len(clear)
        raw = seal(keys, is_data, path, pseq, clear[:at], clear[at:])
        self._enter(name, initiator, datagram, raw,
                    {"clear": clear.hex(), "aad_bytes": at, "keys": label, "pseq": f"0x{pseq:x}",
                     "nonce": keys.nonce(is_data, path, pseq).hex()})

    def handshake(self, cookie: bytes | None) -> None:
        """INIT, RETRY if there is a cookie, INIT again, and INIT_ACK, whose transcript the keys depend on."""
        kind = PacketType.INIT
        raw = self.in_clear("INIT", True, kind, self._init(True), Flag.EXT, 0, 0)
        script = transcript(raw[:-TRAILER_BYTES])
        if cookie is not None:
            self.in_clear("RETRY", False, PacketType.RETRY, Retry(NONCE, cookie))
            again = self.in_clear("INIT with the cookie", True, kind, self._init(True, cookie=cookie), Flag.EXT, 1, 0)
            assert transcript(again[:-TRAILER_BYTES]) == script
        answer = self._init(False, security=2)
        header = Header(PacketType.INIT_ACK, Flag.EXT, 0, 0, self.initiator_cid, 0, 0x1000)
        self._derive(script, transcript(encode_open(Datagram(header, answer), TAG_BYTES)))
        self.sealed("INIT_ACK", False, PacketType.INIT_ACK, answer, 0, Flag.EXT)

    def _derive(self, init: bytes, init_ack: bytes) -> None:
        shared = agree(INITIATOR_PRIVATE, public_key(ACCEPTOR_PRIVATE))
        made = schedule(shared, self.psk, init, init_ack)
        self.derived = {"key_id": key_id(self.psk).hex(), "initiator_public": public_key(INITIATOR_PRIVATE).hex(),
                        "acceptor_public": public_key(ACCEPTOR_PRIVATE).hex(), "shared": shared.hex(),
                        "init_transcript": init.hex(), "init_ack_transcript": init_ack.hex(),
                        "transcript_hash": made.hash.hex(), "prk": made.prk.hex()}
        for direction, keys in (("i2a", made.i2a), ("a2i", made.a2i)):
            self.keys |= {direction: keys, f"{direction}_phase_1": keys.next(), f"{direction}_phase_2": keys.next().next()}
        self.derived |= {name: {"key": k.key.hex(), "iv": k.iv.hex(), "next_secret": k.next_secret.hex()}
                         for name, k in self.keys.items()}

    def result(self, name: str) -> Entry:
        return {"name": name, "psk": None if self.psk is None else self.psk.hex(),
                "initiator_private": INITIATOR_PRIVATE.hex(), "acceptor_private": ACCEPTOR_PRIVATE.hex(),
                "derived": self.derived, "datagrams": self.entries}


def _control(op: Opcode, cpsn: int, **members: int) -> Data:
    return Data(op, cpsn=cpsn, stream=0x12, length=32, control=StreamControl(**QPNS, incarnation=1, **members))


def _write(cpsn: int, payload: bytes, **members: Any) -> Data:
    return Data(Opcode.WRITE, cpsn=cpsn, stream=0x12, msn=cpsn - INITIATOR_CPSN - 1, length=len(payload),
                va=0x00007F0012345678, rkey=0xABCD, payload=payload, **members)


def _block(path: int, largest: int, **members: int) -> PathBlock:
    return PathBlock(path, 0, largest & MASK32, 1, 1, 0, 0x1000, 31, **members)


def without_psk() -> Conversation:
    talk, data, first = Conversation(None, 5, 0x11223344, 0x55667788), PacketType.DATA, INITIATOR_PSEQ
    talk.handshake(COOKIE)
    talk.sealed("STREAM_OPEN", True, data, _control(Opcode.STREAM_OPEN, 0x100, sq_psn=0x123456), first, Flag.AR)
    talk.sealed("ACK", False, PacketType.ACK, Ack(0x101, 0x4101, 0, [_block(0, first)]), 1)
    talk.sealed("STREAM_ACCEPT", False, data,
                _control(Opcode.STREAM_ACCEPT, ACCEPTOR_CPSN, credit_limit=4, rd_atomic=16, min_rnr_timer=12), ACCEPTOR_PSEQ)
    talk.sealed("WRITE", True, data, _write(0x101, b"hello"), first + 1, Flag.AR | Flag.LAST)
    talk.sealed("WRITE whose number has wrapped", True, data, _write(0x102, bytes(range(40))), first + 2, Flag.LAST)
    talk.sealed("WRITE on path 3", True, data, _write(0x103, b"x"), first, Flag.LAST, path=3)
    talk.sealed("WRITE of a full packet", True, data, _write(0x104, bytes(range(256)) * 4), first + 3, Flag.LAST)
    talk.sealed("WRITE without payload", True, data, _write(0x105, b""), first + 4, Flag.LAST)
    talk.sealed("WRITE with TLVs", True, data, _write(0x106, b"tail", tlvs=[RawTlv(77, b"abc"), RawTlv(255)]), first + 5,
                Flag.LAST | Flag.EXT)
    talk.sealed("READ_REQ", True, data, Data(Opcode.READ_REQ, cpsn=0x107, stream=0x12, msn=6, length=4,
                                             va=0x00007F0012345678, rkey=0xABCD, rdslot=6), first + 6, Flag.LAST)
    talk.sealed("READ_RESP", False, data, Data(Opcode.READ_RESP, cpsn=(ACCEPTOR_CPSN + 1), stream=0x11, length=4, rdslot=6,
                                               payload=b"read"), ACCEPTOR_PSEQ + 1)
    talk.sealed("VOID", True, data, Data(Opcode.VOID, cpsn=0x108, stream=0x12, msn=7), first + 7, Flag.RTX)
    talk.sealed("PROBE", True, PacketType.PROBE, Probe(0x1122334455667788, 0, [0x12]), 2, Flag.AR)
    talk.sealed("PROBE_ACK", False, PacketType.PROBE_ACK, ProbeAck(0x1122334455667788), 2)
    padding = PAYLOAD_MTU + 72 - 28 - TAG_BYTES
    talk.sealed("challenge on path 2", True, PacketType.PROBE, Probe(1, 1, [], padding), 0, path=2)
    talk.sealed("ACK with TLVs on path 1", False, PacketType.ACK,
                Ack(0x108, 0x4108, 0, [_block(0, first + 7)], [NakTlv(0x109, Nak.ACCESS)], [CreditTlv(0x11, 1, 4)]), 0, path=1)
    talk.sealed("WRITE after a key update", True, data, _write(0x109, b"phase 1"), first + 8, Flag.LAST, phase=1)
    talk.sealed("ACK, its sender still in phase 0", False, PacketType.ACK, Ack(0x10A, 0x410A, 0, [_block(0, first + 8)]), 3)
    talk.sealed("ACK after a key update", False, PacketType.ACK, Ack(0x10A, 0x410A, 0, [_block(0, first + 8)]), 4, phase=1)
    talk.sealed("WRITE after two key updates", True, data, _write(0x10A, b"phase 2"), first + 9, Flag.LAST, phase=2)
    talk.sealed("CLOSE", True, PacketType.CLOSE, Close(ACCEPTOR_CPSN + 2, 0), 3, phase=2)
    talk.sealed("CLOSE_ACK", False, PacketType.CLOSE_ACK, Close(0x10B, 0), 5, phase=1)
    talk.in_clear("RESET", False, PacketType.RESET, Reset(TOKEN))
    return talk


def with_psk() -> Conversation:
    talk = Conversation(PSK, 4, 0x11223345, 0x55667789)
    talk.handshake(None)
    talk.sealed("STREAM_OPEN", True, PacketType.DATA, _control(Opcode.STREAM_OPEN, 0x100, sq_psn=0x123456), INITIATOR_PSEQ,
                Flag.AR)
    talk.sealed("STREAM_REFUSE", False, PacketType.DATA,
                _control(Opcode.STREAM_REFUSE, ACCEPTOR_CPSN, reason=Reason.NOT_READY), ACCEPTOR_PSEQ)
    talk.sealed("ACK", True, PacketType.ACK, Ack(ACCEPTOR_CPSN + 1, ACCEPTOR_CPSN + 0x4001, 0, [_block(0, ACCEPTOR_PSEQ)]), 1)
    return talk


def conversations() -> list[Entry]:
    return [without_psk().result("without a pre-shared key, with RETRY"), with_psk().result("with a pre-shared key")]


def _lines(conversation: Entry) -> Iterator[str]:
    head = {key: value for key, value in conversation.items() if key != "datagrams"}
    yield json.dumps(head)[:-1] + ', "datagrams": [\n' + ",\n".join(map(json.dumps, conversation["datagrams"])) + "\n]}"


def text() -> str:
    """The whole file; one datagram to a line."""
    return "[\n" + ",\n".join(line for talk in conversations() for line in _lines(talk)) + "\n]\n"
