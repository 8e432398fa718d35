"""Lists of TLVs (§3.8): a type, the length of the value, the value.

The lengths of known types are checked where these types belong: in an ACK. All other lists are skipped as they are; in
DATA only END has a meaning, and no value.
"""

import struct

from .codepoints import MAX_CREDITS, MAX_NAKS, MAX_RECLAIMS, Drop, Nak, Tlv
from .packets import Ack, CreditTlv, NakTlv, PortStatusTlv, RawTlv

VALUE_BYTES = {Tlv.NAK: 12, Tlv.RQ_CREDIT: 8, Tlv.PORT_STATUS: 8, Tlv.CREDIT_RECLAIM: 2}
NAK = struct.Struct("!IB3xI")
CREDIT = struct.Struct("!HHI")
PORT_STATUS = struct.Struct("!II")
RECLAIM = struct.Struct("!H")


def encode_list(tlvs: list[RawTlv]) -> bytes:
    """The list without a terminator."""
    return b"".join(bytes((tlv.type, len(tlv.value))) + tlv.value for tlv in tlvs)


def _next(data: bytes, at: int) -> tuple[RawTlv, int]:
    """The TLV at offset `at` and the offset behind it."""
    if at + 2 > len(data) or at + 2 + data[at + 1] > len(data):
        raise Drop("drop_malformed")
    end = at + 2 + data[at + 1]
    return RawTlv(data[at], bytes(data[at + 2:end])), end


def decode_list(data: bytes) -> list[RawTlv]:
    """A list that ends with the datagram."""
    tlvs, at = [], 0
    while at < len(data):
        tlv, at = _next(data, at)
        tlvs.append(tlv)
    return tlvs


def decode_until_end(data: bytes) -> tuple[list[RawTlv], int]:
    """The list of a DATA datagram and the offset behind its END."""
    tlvs, at = [], 0
    while True:
        tlv, at = _next(data, at)
        if tlv.type == Tlv.END:
            if tlv.value:
                raise Drop("drop_malformed")
            return tlvs, at
        tlvs.append(tlv)


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
