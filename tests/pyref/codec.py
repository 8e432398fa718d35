"""Whole datagrams: header, body, trailer (§3.1), and the checks on arrival that need no connection (§3.13).

`check_frame` makes checks 1 to 4, `decode_body` check 8 (and the part of 7 that asks whether the type is known); a
receiver does those of the connection in between. `decode` is for whoever has no connection: tests and tools.
"""

import struct

from .codepoints import (HEADER_BYTES, LAST_PATH, LEAST_DATAGRAM, LEAST_INIT, STREAM_CONTROL, TRAILER_BYTES, VERSION,
                         Drop, PacketType)
from .control_codec import (decode_ack, decode_close, decode_init, decode_probe, decode_probe_ack, decode_reset,
                            decode_retry, decode_version, encode_ack, encode_init, encode_probe, encode_small)
from .crc32c import crc32c, seal
from .data_codec import decode_data, encode_data
from .packets import Ack, Body, Data, Datagram, Header, Init, Probe

HEADER = struct.Struct("!BBBBIII")


def encode_header(header: Header) -> bytes:
    return HEADER.pack(header.version << 4 | header.type, header.flags, header.path, header.epoch, header.dcid,
                       header.pseq, header.ts)


def encode_body(body: Body, flags: int, trailer: int = TRAILER_BYTES) -> bytes:
    if isinstance(body, Data):
        return encode_data(body, flags)
    if isinstance(body, Ack):
        return encode_ack(body)
    if isinstance(body, Init):
        return encode_init(body, flags, trailer)
    if isinstance(body, Probe):
        return encode_probe(body)
    return encode_small(body)


def encode_open(datagram: Datagram, trailer: int) -> bytes:
    """The datagram before its trailer, which will have that many bytes."""
    header = datagram.header
    return encode_header(header) + encode_body(datagram.body, header.flags, trailer)


def encode(datagram: Datagram) -> bytes:
    """The datagram with the trailer of mode 0."""
    return seal(encode_open(datagram, TRAILER_BYTES))


def parse_header(raw: bytes) -> Header:
    """The common header, unchecked; `raw` has at least 16 bytes."""
    first, flags, path, epoch, dcid, pseq, ts = HEADER.unpack_from(raw)
    return Header(first & 15, flags, path, epoch, dcid, pseq, ts, first >> 4)


def good_trailer(raw: bytes) -> bool:
    return crc32c(raw[:-TRAILER_BYTES]) == int.from_bytes(raw[-TRAILER_BYTES:], "big")


def check_head(raw: bytes) -> Header:
    """Checks 1 and 2 of §3.13."""
    if len(raw) < LEAST_DATAGRAM:
        raise Drop("drop_truncated")
    header = parse_header(raw)
    if header.version != VERSION:
        raise Drop("drop_version")
    return header


def check_crc(raw: bytes) -> None:
    """Check 3 where the trailer is that of mode 0."""
    if not good_trailer(raw):
        raise Drop("drop_crc")


def check_frame(raw: bytes) -> Header:
    """Checks 1 to 4 of §3.13, in their order, as in mode 0."""
    header = check_head(raw)
    check_crc(raw)
    if header.type == PacketType.INIT and len(raw) < LEAST_INIT:
        raise Drop("drop_truncated")
    return header


def check_path(header: Header) -> None:
    """Check 5; it does not concern INIT, which check 4 sends to §4.4."""
    if header.path > LAST_PATH:
        raise Drop("drop_path")


def check_type(header: Header) -> None:
    """The part of check 7 that needs no connection."""
    if header.type not in PacketType.__members__.values():
        raise Drop("drop_type")


def decode_body(header: Header, raw: bytes, trailer: int = TRAILER_BYTES) -> Body:
    """Check 8: the body of a datagram whose frame is good; in mode 2 its payload has been decrypted."""
    body = raw[HEADER_BYTES:-trailer]
    kind = header.type
    if kind == PacketType.DATA:
        return decode_data(body, header.flags)
    if kind == PacketType.ACK:
        return decode_ack(body)
    if kind in (PacketType.INIT, PacketType.INIT_ACK):
        return decode_init(body, header.flags, trailer)
    if kind == PacketType.PROBE:
        return decode_probe(body)
    decoders = {PacketType.PROBE_ACK: decode_probe_ack, PacketType.CLOSE: decode_close,
                PacketType.CLOSE_ACK: decode_close, PacketType.RESET: decode_reset,
                PacketType.RETRY: decode_retry, PacketType.VERSION: decode_version}
    return decoders[PacketType(kind)](body, header.flags)


def decode(raw: bytes) -> Datagram:
    """All checks of §3.13 that need no connection, and §3.5-3; raises Drop with the counter's name."""
    header = check_frame(raw)
    if header.type != PacketType.INIT:
        check_path(header)
    check_type(header)
    body = decode_body(header, raw)
    if isinstance(body, Data) and body.op in STREAM_CONTROL and body.control is None:
        raise Drop("drop_malformed")
    return Datagram(header, body)
