"""A pcapng file of datagrams, as a capture of an Ethernet would show them: always the same bytes for the same packets."""

import struct

PORT = 61440
SOURCE, DESTINATION = bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2])  # RFC 5737
ETHERNET = bytes.fromhex("020000000002 020000000001 0800".replace(" ", ""))
DATA = 4  # type in the low half of the first byte; only DATA is sent ECT(0)


def checksum(data: bytes) -> int:
    padded = data + b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def frame(payload: bytes) -> bytes:
    length = 8 + len(payload)
    udp = struct.pack(">HHHH", 49152, PORT, length, 0) + payload
    pseudo = SOURCE + DESTINATION + struct.pack(">BBH", 0, 17, length)
    udp = udp[:6] + struct.pack(">H", checksum(pseudo + udp) or 0xFFFF) + udp[8:]
    ecn = 2 if payload[:1] and payload[0] & 0x0F == DATA else 0
    ip = struct.pack(">BBHHHBBH", 0x45, ecn, 20 + length, 0, 0x4000, 64, 17, 0) + SOURCE + DESTINATION
    return ETHERNET + ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:] + udp


def padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def block(kind: int, body: bytes) -> bytes:
    size = len(body) + 12
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)


def option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + padded(value)


def capture(packets) -> bytes:
    """`packets`: names and datagrams. One second of 2026 begins the file; the packets follow each millisecond."""
    out = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    out += block(1, struct.pack("<HHI", 1, 0, 0) + option(9, b"\x09") + option(0, b""))
    for number, (name, datagram) in enumerate(packets):
        at = 1_767_225_600 * 10**9 + number * 10**6
        data = frame(datagram)
        head = struct.pack("<IIIII", 0, at >> 32, at & 0xFFFFFFFF, len(data), len(data))
        out += block(6, head + padded(data) + option(1, name.encode()) + option(0, b""))
    return out
