"""The initiator's side of the handshake (§4.3, §4.5–§4.7, §10.3.1, RETRY of §10.4), until there is a connection."""

from __future__ import annotations

import hmac
from dataclasses import replace
from ipaddress import ip_address
from typing import TYPE_CHECKING

from .codec import check_crc, check_type, decode_body, encode
from .codepoints import LEAST_INIT, MAGIC, OVERHEAD, TAG_BYTES, TRAILER_BYTES, VERSION, Drop, Flag, PacketType
from .connection import Connection
from .identity import OwnEnd
from .key_schedule import Schedule, schedule, transcript
from .packets import Datagram, Header, Init, KeyShare, Port, Reset, Retry
from .small_codings import ts_of, wire_address

if TYPE_CHECKING:
    from .endpoint import Address, Endpoint

MILLI = 1_000_000
GIVE_UP = 5000 * MILLI
FIRST_WAIT, LONGEST_WAIT = 20 * MILLI, 250 * MILLI
SMALLER = ((8, 1024), (4, 1344))  # INITs sent before, most payload
MOST_RETRIES = 4
LEAST_MTU, LEAST_WINDOW = 512, 64
LOOPBACK_PREFIX = 8
SECURITY_AT, FLAGS_AT = 22, 23
EXISTS = 1


def own_parameters(endpoint: Endpoint, own: OwnEnd) -> Init:
    """What INIT and INIT_ACK say of their sender alike."""
    limits = endpoint.limits
    prefix = 96 + LOOPBACK_PREFIX if ip_address(endpoint.address).version == 4 else 128
    return Init(magic=MAGIC, scid=own.cid, endpoint_id=endpoint.endpoint_id, reset_token=own.reset_token,
                listen_port=endpoint.port, max_paths=limits.max_paths, max_streams=0xFFFF - 16,
                first_cpsn=own.first_cpsn, first_pseq=own.first_pseq, receive_buffer=endpoint.receive_buffer,
                ports=[Port(wire_address(endpoint.address), prefix)])


class Initiator:
    def __init__(self, endpoint: Endpoint, own: OwnEnd, peer: Address, now: int) -> None:
        self.endpoint, self.own, self.peer = endpoint, own, peer
        self.peer_wire = wire_address(peer[0])
        self.began = self.next_at = now
        self.tries = self.retries = 0
        self.cookie: bytes | None = None
        self.share = own.share(endpoint.security) if 2 in endpoint.security.modes else None
        self.offered_mtu = 0
        self.transcript = b""
        self.latest: tuple[bytes, KeyShare, Schedule] | None = None

    # --- INIT ----------------------------------------------------------------------------------------------------

    def poll(self, now: int) -> None:
        if now - self.began >= GIVE_UP:
            self.endpoint.initiator_lost(self)
        elif now >= self.next_at:
            self._send(now)

    def _send(self, now: int) -> None:
        limits, security = self.endpoint.limits, self.endpoint.security
        self.offered_mtu = min([limits.max_payload] + [most for before, most in SMALLER if self.tries >= before])
        body = replace(own_parameters(self.endpoint, self.own), security=security.offer, nonce=self.own.nonce,
                       payload_mtu=self.offered_mtu, cpsn_window=limits.cpsn_window, key_share=self.share,
                       cookie=self.cookie)
        body.size = max(LEAST_INIT, self.offered_mtu + OVERHEAD[max(security.modes)])
        flags = Flag.EXT if self.share is not None or self.cookie is not None else 0
        header = Header(PacketType.INIT, flags, 0, 0, 0, self.own.control_pseq, ts_of(now))
        self.own.control_pseq += 1
        raw = encode(Datagram(header, body))
        if self.share is not None:
            self.transcript = transcript(raw[:-TRAILER_BYTES])
        self.endpoint.output(raw, self.peer, False)
        self.next_at = now + min(LONGEST_WAIT, FIRST_WAIT << min(self.tries, 10))
        self.tries += 1

    # --- what comes back -----------------------------------------------------------------------------------------

    def on_datagram(self, header: Header, raw: bytes, _: bool, now: int) -> None:
        """Checks 7 and 8 of §3.13, and 3 where mode 2 is offered; what the state does not take is ignored."""
        check_type(header)
        if header.type == PacketType.INIT_ACK:
            self._on_init_ack(header, raw, now)
        elif header.type == PacketType.RETRY:
            self._on_retry(decode_body(header, raw), now)
        elif header.type == PacketType.RESET:
            body = decode_body(header, raw)
            assert isinstance(body, Reset)
            if not hmac.compare_digest(body.token, self.own.reset_token):
                raise Drop("drop_reset")
            self.endpoint.initiator_lost(self)

    def _on_retry(self, retry: Retry, now: int) -> None:
        if retry.nonce != self.own.nonce:
            raise Drop("drop_connection")
        if self.retries < MOST_RETRIES:
            self.retries += 1
            self.endpoint.counters["retries"] += 1
            self.cookie, self.next_at = retry.cookie, now
            self._send(now)

    def _on_init_ack(self, header: Header, raw: bytes, now: int) -> None:
        """§4.5, in its order; the tag of mode 2 comes last (§4.5-10)."""
        tagged = len(raw) > FLAGS_AT and raw[SECURITY_AT] == 2 and not raw[FLAGS_AT] & EXISTS
        if not tagged:
            check_crc(raw)
        body = decode_body(header, raw, TAG_BYTES if tagged else TRAILER_BYTES)
        assert isinstance(body, Init)
        if body.magic != MAGIC:
            raise Drop("drop_malformed")
        if body.nonce != self.own.nonce:
            raise Drop("drop_connection")
        if body.flags & EXISTS:
            self._on_existing(body, now)
            return
        if body.payload_mtu > self.offered_mtu:
            return
        self._check(body)
        keys = self._keys(body, raw) if body.security == 2 else None
        if keys is None and 0 not in self.endpoint.security.modes:
            raise Drop("drop_security")
        self._open(header, raw, body, keys, now)

    def _check(self, body: Init) -> None:
        if (body.scid == 0 or body.max_paths == 0 or body.payload_mtu < LEAST_MTU
                or (body.security != 0 and body.security not in self.endpoint.security.modes)
                or not LEAST_WINDOW <= body.cpsn_window <= self.endpoint.limits.cpsn_window
                or not body.version_min <= VERSION <= body.version_max):
            raise Drop("drop_malformed")

    def _keys(self, body: Init, raw: bytes) -> Schedule:
        security = self.endpoint.security
        share, script = security.check_share(body), transcript(raw[:-TAG_BYTES])
        before = self.latest  # X25519 is slow here, and a forger repeats what it saw
        if before is not None and before[0] == script:
            return before[2]
        shared = before[2].shared if before is not None and before[1] == share else self.own.agree(share)
        made = schedule(shared, security.psk, self.transcript, script)
        self.latest = script, share, made
        return made

    def _open(self, header: Header, raw: bytes, body: Init, keys: Schedule | None, now: int) -> None:
        endpoint = self.endpoint
        connection = Connection(endpoint, self.own, body, self.peer, now, False)
        if keys is not None:
            connection.protect(keys)
            connection.unseal(header, raw)
        others = [c for c in endpoint.connections.values()
                  if c.acceptor and c.state == "open" and c.init.endpoint_id == body.endpoint_id
                  and c.peer[1] == body.listen_port and c.peer_wire in {port.address for port in body.ports}]
        for other in others if endpoint.endpoint_id != body.endpoint_id else []:
            if endpoint.endpoint_id < body.endpoint_id:
                if not other.validated:
                    del endpoint.connections[other.cid]
            else:
                if other.validated:
                    self._merge(other)
                return
        if self.tries == 1:
            connection.send.sample(max(1, now - self.began))
        connection.validated = True
        connection.waiting_since = None
        connection.peer_addresses.add(self.peer_wire)
        del endpoint.initiators[self.own.cid]
        endpoint.connections[self.own.cid] = connection

    def _on_existing(self, body: Init, now: int) -> None:
        """§4.7. Halves wait for a connection by address, so that one more address moves what is queued."""
        connection = self.endpoint.connections.get(body.known_cid)
        if connection is not None and connection.init.scid == body.scid:
            self._merge(connection)
        elif body.known_cid not in self.endpoint.initiators:
            reset = Datagram(Header(PacketType.RESET, dcid=body.scid, ts=ts_of(now)), Reset(body.reset_token))
            self.endpoint.output(encode(reset), self.peer, False)

    def _merge(self, connection: Connection) -> None:
        connection.peer_addresses.add(self.peer_wire)
        del self.endpoint.initiators[self.own.cid]
