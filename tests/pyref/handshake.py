"""Receiving INIT and answering it (§4.4, §4.7, §4.12). This peer accepts connections and opens none."""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING

from .codec import decode_body, encode, good_trailer, parse_header
from .codepoints import LEAST_INIT, MAGIC, VERSION, Drop, PacketType
from .connection import Connection
from .packets import Datagram, Header, Init, Port, VersionList
from .small_codings import ts_of

if TYPE_CHECKING:
    from .endpoint import Address, Endpoint

LEAST_MTU = 512
MOST_INIT = 9220
LEAST_WINDOW = 64
LOOPBACK_PREFIX = 8


def wire_address(text: str) -> bytes:
    """The 16 bytes of an address (§3.10)."""
    address = ip_address(text.split("%")[0])
    return address.packed if address.version == 6 else bytes(10) + b"\xff\xff" + address.packed


def answer_version(endpoint: Endpoint, raw: bytes, source: Address, now: int) -> None:
    """Check 2 of §3.13 failed: an INIT of another version is told what is spoken here."""
    header = parse_header(raw)
    another = header.version != VERSION
    if another and header.type == PacketType.INIT and len(raw) >= LEAST_INIT and good_trailer(raw):
        answer = Datagram(Header(PacketType.VERSION, dcid=header.dcid, ts=ts_of(now)), VersionList([VERSION]))
        endpoint.output(encode(answer), source, False)


def check_init(init: Init) -> None:
    """§4.4, before anything is looked up."""
    if init.magic != MAGIC:
        raise Drop("drop_magic")
    if not init.version_min <= VERSION <= init.version_max:
        raise Drop("drop_version")
    if (init.size > MOST_INIT or init.scid == 0 or init.listen_port == 0 or init.payload_mtu < LEAST_MTU or init.max_paths < 1
            or init.cpsn_window < LEAST_WINDOW or not init.security & 1):
        raise Drop("drop_malformed")


def on_init(endpoint: Endpoint, header: Header, raw: bytes, source: Address, now: int) -> None:
    """The five cases of §4.4 (the fourth cannot happen here)."""
    init = decode_body(header, raw)
    assert isinstance(init, Init)
    check_init(init)
    known = [c for c in endpoint.connections.values() if c.init.endpoint_id == init.endpoint_id]
    for connection in known:
        if connection.init.scid == init.scid:
            if not connection.validated:
                connection.shrink(min(connection.payload_mtu, init.payload_mtu))
            send_init_ack(endpoint, connection, init, len(raw))
            return
    if endpoint.ending:
        return
    for connection in known:
        if connection.state == "open":
            answer_existing(endpoint, connection, init, len(raw), source, now)
            return
    if len(endpoint.connections) >= endpoint.limits.max_connections:
        raise Drop("drop_limit")
    connection = Connection(endpoint, endpoint.free_cid(), init, wire_address(source[0]), source[0], now)
    endpoint.connections[connection.cid] = connection
    send_init_ack(endpoint, connection, init, len(raw))


def _parameters(endpoint: Endpoint, connection: Connection, init: Init, size: int) -> Init:
    """The body of an INIT_ACK for this connection, as long as the INIT that it answers."""
    limits = endpoint.limits
    prefix = 96 + LOOPBACK_PREFIX if ip_address(endpoint.address).version == 4 else 128
    return Init(magic=MAGIC, security=0, scid=connection.cid, endpoint_id=endpoint.endpoint_id,
                reset_token=connection.reset_token, nonce=init.nonce, listen_port=endpoint.port,
                payload_mtu=connection.payload_mtu, max_paths=min(limits.max_paths, connection.init.max_paths),
                max_streams=0xFFFF - 16, cpsn_window=connection.window.window,
                first_cpsn=connection.send.first_cpsn, first_pseq=connection.first_pseq,
                receive_buffer=endpoint.receive_buffer,
                ports=[Port(wire_address(endpoint.address), prefix)], size=size)


def send_init_ack(endpoint: Endpoint, connection: Connection, init: Init, size: int) -> None:
    connection.send_control_datagram(PacketType.INIT_ACK, _parameters(endpoint, connection, init, size))


def answer_existing(endpoint: Endpoint, connection: Connection, init: Init, size: int, source: Address,
                    now: int) -> None:
    """§4.7: no state is created."""
    body = _parameters(endpoint, connection, init, size)
    body.flags, body.known_cid = 1, connection.init.scid
    header = Header(PacketType.INIT_ACK, dcid=init.scid, ts=ts_of(now))
    endpoint.output(encode(Datagram(header, body)), (source[0], init.listen_port), False)
