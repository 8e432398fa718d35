"""Receiving INIT and answering it (§4.4, §4.7, §4.12, §10.3.1, §10.4)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .codec import decode_body, encode, encode_open, good_trailer, parse_header
from .codepoints import LEAST_INIT, MAGIC, TAG_BYTES, TRAILER_BYTES, VERSION, Drop, Flag, PacketType
from .connection import Connection
from .identity import OwnEnd
from .initiator import own_parameters
from .key_schedule import schedule, transcript
from .packets import Datagram, Header, Init, Retry, VersionList
from .retry import RETRY_ABOVE
from .small_codings import ts_of

if TYPE_CHECKING:
    from .endpoint import Address, Endpoint

LEAST_MTU = 512
MOST_INIT = 9220
LEAST_WINDOW = 64


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
    if (init.size > MOST_INIT or init.scid == 0 or init.listen_port == 0 or init.payload_mtu < LEAST_MTU
            or init.max_paths < 1 or init.cpsn_window < LEAST_WINDOW):
        raise Drop("drop_malformed")


def on_init(endpoint: Endpoint, header: Header, raw: bytes, source: Address, now: int) -> None:
    """The five cases of §4.4."""
    init = decode_body(header, raw)
    assert isinstance(init, Init)
    check_init(init)
    mode, script = endpoint.security.choose(init.security), b""
    if mode == 2:
        endpoint.security.check_share(init)
        script = transcript(raw[:-TRAILER_BYTES])
    same_ids = [c for c in endpoint.connections.values()
                if c.acceptor and c.init.endpoint_id == init.endpoint_id and c.init.scid == init.scid]
    for connection in same_ids:
        if connection.mode == mode and connection.init_transcript == script:
            _repeat(endpoint, connection, init, len(raw), source)
            return
    if endpoint.ending:
        return
    for connection in endpoint.connections.values():
        forged = mode == 2 and connection in same_ids and not connection.validated  # §10.3.1-10
        theirs = connection.is_at((source[0], init.listen_port))  # §4.4-17
        if connection.state == "open" and connection.init.endpoint_id == init.endpoint_id and theirs and not forged:
            if init.endpoint_id != endpoint.endpoint_id:
                _answer_existing(endpoint, connection, init, len(raw), source, now)
                return
    own = _both_at_once(endpoint, init, source)
    if own is not None:
        _begin(endpoint, own, init, mode, script, source, len(raw), now)


def _both_at_once(endpoint: Endpoint, init: Init, source: Address) -> OwnEnd | None:
    """§4.6-1 and §4.6-2; what the new connection has of its own, or None if the INIT is ignored."""
    ours = [i for i in endpoint.initiators.values() if i.peer == (source[0], init.listen_port)]
    if ours and endpoint.endpoint_id < init.endpoint_id:
        return None
    fresh = OwnEnd.make(endpoint.free_cid(), endpoint.source)
    if ours and endpoint.endpoint_id > init.endpoint_id:
        del endpoint.initiators[ours[0].own.cid]
        return replace(ours[0].own, private=fresh.private)  # §10.3.1-12
    return fresh


def _begin(endpoint: Endpoint, own: OwnEnd, init: Init, mode: int, script: bytes, source: Address, size: int,
           now: int) -> None:
    """A new connection."""
    if len(endpoint.connections) >= endpoint.limits.max_connections:
        raise Drop("drop_limit")
    waiting = sum(not connection.validated for connection in endpoint.connections.values())
    if waiting > RETRY_ABOVE and not endpoint.cookies.good(source[0], init, now):
        body = Retry(init.nonce, endpoint.cookies.make(source[0], init, now))
        answer = Datagram(Header(PacketType.RETRY, dcid=init.scid, ts=ts_of(now)), body)
        endpoint.output(encode(answer), (source[0], init.listen_port), False)
        return
    shared = own.agree(endpoint.security.check_share(init)) if mode == 2 else b""
    connection = Connection(endpoint, own, init, (source[0], init.listen_port), now, True, mode)
    connection.init_transcript = script
    if mode == 2:
        plain = encode_open(_init_ack(endpoint, connection, init, size), TAG_BYTES)
        connection.protect(schedule(shared, endpoint.security.psk, script, transcript(plain)))
    endpoint.connections[connection.cid] = connection
    connection.heard(size)
    connection.emit(_init_ack(endpoint, connection, init, size))


def _repeat(endpoint: Endpoint, connection: Connection, init: Init, size: int, source: Address) -> None:
    """Case 1: INIT_ACK again, except in mode 2 once the peer has been heard (§10.3.1-11)."""
    if connection.mode == 2 and connection.validated:
        return
    if source[0] == connection.peer[0]:
        connection.heard(size)
    if not connection.validated:
        connection.shrink(min(connection.payload_mtu, init.payload_mtu))
    connection.emit(_init_ack(endpoint, connection, init, size))


def _parameters(endpoint: Endpoint, connection: Connection, init: Init, size: int) -> Init:
    """The body of an INIT_ACK for this connection, as long as the INIT that it answers."""
    body = own_parameters(endpoint, connection.own)
    return replace(body, security=connection.mode, nonce=init.nonce, payload_mtu=connection.payload_mtu,
                   max_paths=min(endpoint.limits.max_paths, connection.init.max_paths),
                   cpsn_window=connection.window.window, size=size)


def _init_ack(endpoint: Endpoint, connection: Connection, init: Init, size: int) -> Datagram:
    """Without its PSEQ, which `emit` gives it."""
    body, flags = _parameters(endpoint, connection, init, size), 0
    if connection.mode == 2:
        body.key_share, flags = connection.own.share(endpoint.security), Flag.EXT
    return Datagram(connection.header(PacketType.INIT_ACK, flags), body)


def _answer_existing(endpoint: Endpoint, connection: Connection, init: Init, size: int, source: Address,
                     now: int) -> None:
    """§4.7: no state is created."""
    body = _parameters(endpoint, connection, init, size)
    body.flags, body.known_cid = 1, connection.init.scid
    body.first_cpsn = body.first_pseq = 0  # §4.7-9
    header = Header(PacketType.INIT_ACK, dcid=init.scid, ts=ts_of(now))
    endpoint.output(encode(Datagram(header, body)), (source[0], init.listen_port), False)
