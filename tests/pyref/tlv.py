"""Lists of TLVs (§3.8): a type, the length of the value, the value.

The lengths of known types are checked where these types belong: in an ACK, in INIT and INIT_ACK. All other lists are skipped
as they are; in DATA only END has a meaning, and no value.
"""

import struct
from typing import Iterator

from .codepoints import MAX_COOKIE, MAX_CREDITS, MAX_NAKS, MAX_RECLAIMS, Drop, Nak, Tlv
from .packets import Ack, CreditTlv, Init, KeyShare, NakTlv, PortStatusTlv, RawTlv

VALUE_BYTES = {Tlv.NAK: 12, Tlv.RQ_CREDIT: 8, Tlv.PORT_STATUS: 8, Tlv.CREDIT_RECLAIM: 2}
NAK = struct.Struct("!IB3xI")
CREDIT = struct.Struct("!HHI")
PORT_STATUS = struct.Struct("!II")
RECLAIM = struct.Struct("!H")
KEY_SHARE = struct.Struct("!32s8s")


def encode_list(tlvs: list[RawTlv]) -> bytes:
    """The list without a terminator."""
    return b"".join(bytes((tlv.type, len(tlv.value))) + tlv.value for tlv in tlvs)


def walk(data: bytes, at: int) -> Iterator[tuple[int, int, int]]:
    """Type, offset and offset of the end of each TLV from `at` on."""
    while at < len(data):
        if at + 2 > len(data) or at + 2 + data[at + 1] > len(data):
            raise Drop("drop_malformed")
        end = at + 2 + data[at + 1]
        yield data[at], at, end
        at = end


def decode_list(data: bytes) -> list[RawTlv]:
    """A list that ends with the datagram."""
    return [RawTlv(kind, bytes(data[at + 2:end])) for kind, at, end in walk(data, 0)]


def decode_until_end(data: bytes) -> tuple[list[RawTlv], int]:
    """The list of DATA, INIT or INIT_ACK and the offset behind its END."""
    tlvs = []
    for kind, at, end in walk(data, 0):
        if kind == Tlv.END:
            if end > at + 2:
                raise Drop("drop_malformed")
            return tlvs, end
        tlvs.append(RawTlv(kind, bytes(data[at + 2:end])))
    raise Drop("drop_malformed")


def encode_init_tlvs(init: Init) -> bytes:
    """The list of an INIT or INIT_ACK with EXT."""
    tlvs = []
    if init.key_share is not None:
        tlvs.append(RawTlv(Tlv.KEY_SHARE, KEY_SHARE.pack(init.key_share.public_key, init.key_share.key_id)))
    if init.cookie is not None:
        tlvs.append(RawTlv(Tlv.COOKIE, init.cookie))
    return encode_list(tlvs + init.tlvs + [RawTlv(Tlv.END)])


def decode_init_tlvs(data: bytes, init: Init) -> None:
    """Sort the TLVs of an INIT or INIT_ACK into its members (§3.8-14); what follows END is padding."""
    for tlv in decode_until_end(data)[0]:
        if tlv.type == Tlv.KEY_SHARE:
            if init.key_share is not None or len(tlv.value) != KEY_SHARE.size:
                raise Drop("drop_malformed")
            init.key_share = KeyShare(*KEY_SHARE.unpack(tlv.value))
        elif tlv.type == Tlv.COOKIE:
            if init.cookie is not None or not 1 <= len(tlv.value) <= MAX_COOKIE:
                raise Drop("drop_malformed")
            init.cookie = tlv.value
        else:
            init.tlvs.append(tlv)


def encode_ack_tlvs(ack: Ack) -> bytes:
    """The typed TLVs of an ACK, in the order of their types."""
    tlvs = [RawTlv(Tlv.NAK, NAK.pack(nak.cpsn, nak.code, nak.arg)) for nak in ack.naks]
    tlvs += [RawTlv(Tlv.RQ_CREDIT, CREDIT.pack(c.stream, c.incarnation, c.limit)) for c in ack.credits]
    if ack.port_status is not None:
        tlvs.append(RawTlv(Tlv.PORT_STATUS, PORT_STATUS.pack(ack.port_status.mask, ack.port_status.sequence)))
    tlvs += [RawTlv(Tlv.CREDIT_RECLAIM, RECLAIM.pack(stream)) for stream in ack.reclaims]
    return encode_list(tlvs + ack.unknown)


def decode_ack_tlvs(data: bytes, ack: Ack) -> None:
    """Sort the TLVs of an ACK into its members; END has no meaning there. Too many of a kind are malformed (§3.7)."""
    for tlv in decode_list(data):
        if VALUE_BYTES.get(tlv.type, len(tlv.value)) != len(tlv.value):
            raise Drop("drop_malformed")
        if tlv.type == Tlv.END:
            continue
        if tlv.type == Tlv.NAK:
            ack.naks.append(NakTlv(*NAK.unpack(tlv.value)))
        elif tlv.type == Tlv.RQ_CREDIT:
            ack.credits.append(CreditTlv(*CREDIT.unpack(tlv.value)))
        elif tlv.type == Tlv.CREDIT_RECLAIM:
            ack.reclaims.append(RECLAIM.unpack(tlv.value)[0])
        elif tlv.type == Tlv.PORT_STATUS:
            if ack.port_status is not None:
                raise Drop("drop_malformed")
            ack.port_status = PortStatusTlv(*PORT_STATUS.unpack(tlv.value))
        else:
            ack.unknown.append(tlv)
    if len(ack.naks) > MAX_NAKS or len(ack.credits) > MAX_CREDITS or len(ack.reclaims) > MAX_RECLAIMS:
        raise Drop("drop_malformed")
    if any(nak.code == Nak.NONE or nak.code > max(Nak) for nak in ack.naks):  # §5.16
        raise Drop("drop_malformed")
