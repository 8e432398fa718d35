"""Bodies of the control datagrams: handshake, ACK, PROBE and the small ones (§3.7, §3.9, §3.10)."""

import struct

from .codepoints import (HEADER_BYTES, LAST_PATH, MAGIC, MAX_BLOCKS, MAX_PORTS, MAX_PROBE_STREAMS, MAX_VERSIONS,
                         MAX_COOKIE, Drop, Flag)
from .packets import Ack, Close, Init, PathBlock, Port, Probe, ProbeAck, RawTlv, Reset, Retry, VersionList
from .tlv import (decode_ack_tlvs, decode_init_tlvs, decode_list, encode_ack_tlvs, encode_init_tlvs, encode_list)

INIT = struct.Struct("!IBBBBI16s16sQHHBBHIIIII")
PORT = struct.Struct("!16sII")
ACK = struct.Struct("!IBB2xI")
BLOCK_HEAD = struct.Struct("!BxHI")
BLOCK_TAIL = struct.Struct("!IIIH2x")
BLOCK_BYTES = 56
PROBE = struct.Struct("!QBB2x")
CLOSE = struct.Struct("!II")
RETRY = struct.Struct("!QB3x")


def encode_init(init: Init, flags: int, trailer: int) -> bytes:
    out = INIT.pack(init.magic, init.version_min, init.version_max, init.security, init.flags, init.scid,
                    init.endpoint_id, init.reset_token, init.nonce, init.listen_port, init.payload_mtu,
                    init.max_paths, len(init.ports), init.max_streams, init.cpsn_window, init.first_cpsn,
                    init.first_pseq, init.receive_buffer, init.known_cid)
    out += b"".join(PORT.pack(port.address, port.prefix_bits, port.rate_mbps) for port in init.ports)
    if flags & Flag.EXT:
        out += encode_init_tlvs(init)
    return out.ljust(init.size - HEADER_BYTES - trailer, b"\0")


def decode_init(body: bytes, header_flags: int, trailer: int) -> Init:
    """INIT or INIT_ACK. Behind offset 95 nothing is looked at if the magic is another one (§3.10)."""
    if len(body) < INIT.size:
        raise Drop("drop_malformed")
    (magic, low, high, security, flags, scid, endpoint, token, nonce, listen, mtu, paths, nports, streams, window,
     cpsn, pseq, buffer, known) = INIT.unpack_from(body)
    init = Init(magic, low, high, security, flags, scid, endpoint, token, nonce, listen, mtu, paths, streams, window,
                cpsn, pseq, buffer, known, [], len(body) + HEADER_BYTES + trailer)
    if magic != MAGIC:
        return init
    if not 1 <= nports <= MAX_PORTS or len(body) < INIT.size + nports * PORT.size:
        raise Drop("drop_malformed")
    init.ports = [Port(*PORT.unpack_from(body, INIT.size + i * PORT.size)) for i in range(nports)]
    if any(port.prefix_bits > 128 for port in init.ports):
        raise Drop("drop_malformed")
    if header_flags & Flag.EXT:
        decode_init_tlvs(body[INIT.size + nports * PORT.size:], init)
    return init


def encode_block(block: PathBlock) -> bytes:
    words = [block.vector >> 64 * i & 0xFFFFFFFFFFFFFFFF for i in range(4)]
    return (BLOCK_HEAD.pack(block.path, block.rate, block.largest) + struct.pack("!4Q", *words)
            + BLOCK_TAIL.pack(block.rx_count, block.ce_count, block.ts_echo, block.ack_delay))


def decode_block(data: bytes) -> PathBlock:
    path, rate, largest = BLOCK_HEAD.unpack_from(data)
    if path > LAST_PATH:
        raise Drop("drop_malformed")
    words = struct.unpack_from("!4Q", data, BLOCK_HEAD.size)
    vector = sum(word << 64 * i for i, word in enumerate(words))
    return PathBlock(path, rate, largest, vector, *BLOCK_TAIL.unpack_from(data, 40))


def encode_ack(ack: Ack) -> bytes:
    head = ACK.pack(ack.cack, len(ack.blocks), ack.host_penalty, ack.cpsn_limit)
    return head + b"".join(map(encode_block, ack.blocks)) + encode_ack_tlvs(ack)


def decode_ack(body: bytes) -> Ack:
    if len(body) < ACK.size:
        raise Drop("drop_malformed")
    cack, nblocks, penalty, limit = ACK.unpack_from(body)
    end = ACK.size + nblocks * BLOCK_BYTES
    if nblocks > MAX_BLOCKS or penalty > 127 or len(body) < end:
        raise Drop("drop_malformed")
    ack = Ack(cack, limit, penalty)
    ack.blocks = [decode_block(body[at:at + BLOCK_BYTES]) for at in range(ACK.size, end, BLOCK_BYTES)]
    decode_ack_tlvs(body[end:], ack)
    return ack


def encode_probe(probe: Probe) -> bytes:
    streams = struct.pack(f"!{len(probe.streams)}H", *probe.streams)
    return PROBE.pack(probe.token, len(probe.streams), probe.kind) + streams + bytes(probe.padding)


def decode_probe(body: bytes) -> Probe:
    """Whatever follows the streams is padding."""
    if len(body) < PROBE.size:
        raise Drop("drop_malformed")
    token, count, kind = PROBE.unpack_from(body)
    end = PROBE.size + 2 * count
    if count > MAX_PROBE_STREAMS or len(body) < end:
        raise Drop("drop_malformed")
    return Probe(token, kind, list(struct.unpack_from(f"!{count}H", body, PROBE.size)), len(body) - end)


def _rest(body: bytes, size: int, flags: int) -> list[RawTlv]:
    """TLVs behind a body of `size` bytes: only with EXT; anything else there is malformed (§3.8)."""
    if len(body) < size or (len(body) > size and not flags & Flag.EXT):
        raise Drop("drop_malformed")
    return decode_list(body[size:])


def decode_probe_ack(body: bytes, flags: int) -> ProbeAck:
    tlvs = _rest(body, 8, flags)
    return ProbeAck(int.from_bytes(body[:8], "big"), tlvs)


def decode_close(body: bytes, flags: int) -> Close:
    tlvs = _rest(body, CLOSE.size, flags)
    return Close(*CLOSE.unpack_from(body), tlvs)


def decode_reset(body: bytes, flags: int) -> Reset:
    tlvs = _rest(body, 16, flags)
    return Reset(bytes(body[:16]), tlvs)


def decode_version(body: bytes, flags: int) -> VersionList:
    if len(body) < 4 or not 1 <= body[0] <= MAX_VERSIONS:
        raise Drop("drop_malformed")
    tlvs = _rest(body, 4 + body[0], flags)
    return VersionList(list(body[4:4 + body[0]]), tlvs)


def decode_retry(body: bytes, flags: int) -> Retry:
    if len(body) < RETRY.size:
        raise Drop("drop_malformed")
    nonce, length = RETRY.unpack_from(body)
    if not 1 <= length <= MAX_COOKIE:
        raise Drop("drop_malformed")
    tlvs = _rest(body, RETRY.size + length, flags)
    return Retry(nonce, bytes(body[RETRY.size:RETRY.size + length]), tlvs)


def encode_small(body: ProbeAck | Close | Reset | Retry | VersionList) -> bytes:
    """The bodies that TLVs may follow."""
    if isinstance(body, ProbeAck):
        out = body.token.to_bytes(8, "big")
    elif isinstance(body, Close):
        out = CLOSE.pack(body.cack, body.reason)
    elif isinstance(body, Reset):
        out = body.token
    elif isinstance(body, Retry):
        out = RETRY.pack(body.nonce, len(body.cookie)) + body.cookie
    else:
        out = bytes((len(body.versions), 0, 0, 0)) + bytes(body.versions)
    return out + encode_list(body.tlvs)
