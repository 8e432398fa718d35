"""Datagrams as values: one class for each body of §3."""

from dataclasses import dataclass, field
from typing import Union

from .codepoints import VERSION, Flag, Opcode, PacketType


@dataclass
class Header:
    """Common header, §3.2."""

    type: int
    flags: int = 0
    path: int = 0
    epoch: int = 0
    dcid: int = 0
    pseq: int = 0
    ts: int = 0
    version: int = VERSION

    def has(self, flag: Flag) -> bool:
        return bool(self.flags & flag)


@dataclass
class RawTlv:
    """A TLV as bytes; those that this version does not know are kept that way."""

    type: int
    value: bytes = b""


@dataclass
class StreamControl:
    """Payload of opcodes 16 to 22, §3.5."""

    src_qpn: int = 0
    dst_qpn: int = 0
    sq_psn: int = 0
    incarnation: int = 0
    credit_limit: int = 0
    rd_atomic: int = 0
    min_rnr_timer: int = 0
    reason: int = 0
    code: int = 0


@dataclass
class Data:
    """DATA, §3.4. Members that the opcode's extension lacks are zero."""

    op: int = Opcode.WRITE
    cpsn: int = 0
    stream: int = 0
    backlog: int = 0
    msn: int = 0
    offset: int = 0
    length: int = 0
    va: int = 0
    rkey: int = 0
    rqsn: int = 0
    imm: int = 0
    rdslot: int = 0
    status: int = 0
    operand: int = 0
    compare: int = 0
    original: int = 0
    control: StreamControl | None = None
    tlvs: list[RawTlv] = field(default_factory=list)
    payload: bytes = b""


@dataclass
class PathBlock:
    """Path block of an ACK, §3.7. `vector` is one integer: bit n stands for LARGEST - n."""

    path: int = 0
    rate: int = 0
    largest: int = 0
    vector: int = 0
    rx_count: int = 0
    ce_count: int = 0
    ts_echo: int = 0
    ack_delay: int = 0


@dataclass
class NakTlv:
    cpsn: int
    code: int
    arg: int = 0


@dataclass
class CreditTlv:
    stream: int
    incarnation: int
    limit: int


@dataclass
class PortStatusTlv:
    mask: int
    sequence: int


@dataclass
class Ack:
    """ACK, §3.7."""

    cack: int = 0
    cpsn_limit: int = 0
    host_penalty: int = 0
    blocks: list[PathBlock] = field(default_factory=list)
    naks: list[NakTlv] = field(default_factory=list)
    credits: list[CreditTlv] = field(default_factory=list)
    reclaims: list[int] = field(default_factory=list)
    port_status: PortStatusTlv | None = None
    unknown: list[RawTlv] = field(default_factory=list)


@dataclass
class Probe:
    """PROBE, §3.9. `padding` bytes of zero follow the streams."""

    token: int = 0
    kind: int = 0
    streams: list[int] = field(default_factory=list)
    padding: int = 0


@dataclass
class ProbeAck:
    token: int = 0
    tlvs: list[RawTlv] = field(default_factory=list)


@dataclass
class Close:
    """CLOSE and CLOSE_ACK, §3.10."""

    cack: int = 0
    reason: int = 0
    tlvs: list[RawTlv] = field(default_factory=list)


@dataclass
class Reset:
    token: bytes = bytes(16)
    tlvs: list[RawTlv] = field(default_factory=list)


@dataclass
class VersionList:
    versions: list[int] = field(default_factory=lambda: [VERSION])
    tlvs: list[RawTlv] = field(default_factory=list)


@dataclass
class Retry:
    """RETRY, §10.4."""

    nonce: int = 0
    cookie: bytes = b""
    tlvs: list[RawTlv] = field(default_factory=list)


@dataclass
class KeyShare:
    """TLV of INIT and INIT_ACK, §10.3.1."""

    public_key: bytes = bytes(32)
    key_id: bytes = bytes(8)


@dataclass
class Port:
    """A port in INIT: its address is 16 bytes, IPv4 as ::ffff:a.b.c.d (§3.10)."""

    address: bytes
    prefix_bits: int = 128
    rate_mbps: int = 0


@dataclass
class Init:
    """INIT and INIT_ACK, §3.10. The encoder pads to `size`, trailer included. TLVs exist on the wire with EXT only; those
    of unknown types stand behind the others."""

    magic: int = 0
    version_min: int = 1
    version_max: int = 1
    security: int = 1
    flags: int = 0
    scid: int = 0
    endpoint_id: bytes = bytes(16)
    reset_token: bytes = bytes(16)
    nonce: int = 0
    listen_port: int = 0
    payload_mtu: int = 0
    max_paths: int = 1
    max_streams: int = 0
    cpsn_window: int = 0
    first_cpsn: int = 0
    first_pseq: int = 0
    receive_buffer: int = 0
    known_cid: int = 0
    ports: list[Port] = field(default_factory=list)
    size: int = 1200
    key_share: KeyShare | None = None
    cookie: bytes | None = None
    tlvs: list[RawTlv] = field(default_factory=list)


Body = Union[Init, Data, Ack, Probe, ProbeAck, Close, Reset, Retry, VersionList]

BODY_CLASS: dict[int, type] = {
    PacketType.INIT: Init, PacketType.INIT_ACK: Init, PacketType.DATA: Data, PacketType.ACK: Ack,
    PacketType.PROBE: Probe, PacketType.PROBE_ACK: ProbeAck, PacketType.CLOSE: Close, PacketType.CLOSE_ACK: Close,
    PacketType.RESET: Reset, PacketType.RETRY: Retry, PacketType.VERSION: VersionList,
}


@dataclass
class Datagram:
    header: Header
    body: Body
