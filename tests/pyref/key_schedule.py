"""Keys of mode 2 (§10.3.1, §10.3.2, §10.3.4) as functions of what both ends know: no state, no randomness."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

from . import hkdf
from .codepoints import HEADER_BYTES, Drop, Tlv
from .control_codec import INIT, PORT
from .gcm import NONCE_BYTES, Gcm
from .tlv import walk
from .x25519 import x25519

KEY_ID_BYTES = 8
PSK_BYTES = 32
NO_PSK = bytes(PSK_BYTES)
MTU_AT = 70 - HEADER_BYTES  # of the payload MTU within a transcript
NPORTS_AT = 73 - HEADER_BYTES
DERIVED_BYTES = 60


def key_id(psk: bytes | None) -> bytes:
    """What names a pre-shared key; zero stands for none."""
    return bytes(KEY_ID_BYTES) if psk is None else hashlib.sha256(b"mroce key id" + psk).digest()[:KEY_ID_BYTES]


def transcript(raw: bytes) -> bytes:
    """Of a datagram INIT or INIT_ACK whose body is known to be well formed and to have a list of TLVs."""
    body = raw[HEADER_BYTES:]
    at = INIT.size + body[NPORTS_AT] * PORT.size
    out = bytearray(body[:at])
    out[MTU_AT:MTU_AT + 2] = bytes(2)
    for kind, start, end in walk(body, at):
        if kind != Tlv.COOKIE:
            out += body[start:end]
        if kind == Tlv.END:
            return bytes(out)
    raise Drop("drop_malformed")


@dataclass(frozen=True)
class PhaseKeys:
    """What protects one direction in one phase."""

    key: bytes
    iv: bytes
    next_secret: bytes

    @classmethod
    def derive(cls, secret: bytes, info: bytes) -> PhaseKeys:
        out = hkdf.expand(secret, info, DERIVED_BYTES)
        return cls(out[:16], out[16:28], out[28:])

    def next(self) -> PhaseKeys:
        return self.derive(self.next_secret, b"mroce 1 update")

    def nonce(self, is_data: bool, path: int, pseq: int) -> bytes:
        """`pseq` is the full number of 64 bits."""
        number = ((0 if is_data else 0x80) | path) << 64 | pseq
        return (int.from_bytes(self.iv, "big") ^ number).to_bytes(NONCE_BYTES, "big")

    @cached_property
    def gcm(self) -> Gcm:
        return Gcm(self.key)


@dataclass(frozen=True)
class Schedule:
    """All that is derived for a connection, step by step."""

    shared: bytes
    prk: bytes
    hash: bytes
    i2a: PhaseKeys
    a2i: PhaseKeys


def agree(private: bytes, public: bytes) -> bytes:
    """The X25519 result; a public key that gives zero is none (§10.3.1-7)."""
    shared = x25519(private, public)
    if shared == bytes(len(shared)):
        raise Drop("drop_malformed")
    return shared


def schedule(shared: bytes, psk: bytes | None, init: bytes, init_ack: bytes) -> Schedule:
    """`init` and `init_ack` are the transcripts."""
    prk = hkdf.extract(psk or NO_PSK, shared)
    both = hashlib.sha256(init + init_ack).digest()
    return Schedule(shared, prk, both, PhaseKeys.derive(prk, b"mroce 1 i2a" + both),
                    PhaseKeys.derive(prk, b"mroce 1 a2i" + both))
