"""Code points of the wire (§3.2, §3.3, §3.4, §3.5, §3.8, §5.16)."""

from enum import IntEnum

VERSION = 1
MAGIC = 0x6D524F43
HEADER_BYTES = 16
TRAILER_BYTES = 4
TAG_BYTES = 16  # the trailer of mode 2
LEAST_DATAGRAM = HEADER_BYTES + TRAILER_BYTES
LEAST_INIT = 1200
OVERHEAD = {0: 60, 2: 72}  # full packet size less payload MTU, by security mode (§3.14)
STREAM_CONTROL_BYTES = 32
LAST_PATH = 63
MAX_BLOCKS = 4
MAX_NAKS = 16
MAX_CREDITS = 64
MAX_RECLAIMS = 16
MAX_PROBE_STREAMS = 64
MAX_PORTS = 8
MAX_VERSIONS = 16
MAX_COOKIE = 64
BITS24 = 0xFFFFFF


class PacketType(IntEnum):
    """§3.3. Reserved types (10, 11) are absent: whoever looks them up finds nothing."""

    INIT = 0
    INIT_ACK = 1
    RETRY = 2
    VERSION = 3
    DATA = 4
    ACK = 5
    PROBE = 6
    PROBE_ACK = 7
    CLOSE = 8
    RESET = 9
    CLOSE_ACK = 12


class Flag(IntEnum):
    """§3.2."""

    AR = 0x80
    RTX = 0x40
    LAST = 0x20
    SE = 0x10
    BL = 0x08
    EXT = 0x04
    EPH = 0x02


class Opcode(IntEnum):
    """§3.4."""

    WRITE = 0
    WRITE_IMM = 1
    SEND = 2
    SEND_IMM = 3
    SEND_INV = 4
    READ_REQ = 5
    READ_RESP = 6
    COMPARE_SWAP = 7
    FETCH_ADD = 8
    ATOMIC_RESP = 9
    VOID = 10
    STREAM_OPEN = 16
    STREAM_ACCEPT = 17
    STREAM_REFUSE = 18
    STREAM_CLOSE = 19
    STREAM_STOP = 20
    STREAM_BLOCKED = 21
    CREDIT_RETURN = 22


class Reason(IntEnum):
    """§3.5, reasons of STREAM_REFUSE and STREAM_STOP."""

    NONE = 0
    NOT_READY = 1
    MISMATCH = 2
    NO_RESOURCE = 3
    GONE = 4
    FAILED = 5


class Nak(IntEnum):
    """§5.16."""

    NONE = 0
    WINDOW = 1
    NO_RESOURCE = 2
    RNR = 3
    ACCESS = 4
    INVALID = 5
    LENGTH = 6
    REMOTE_OP = 7
    TRIMMED = 8
    BAD_CONNECTION = 9
    UNKNOWN_STREAM = 10


class Tlv(IntEnum):
    """§3.8. ADD_PATH and REMOVE_PATH are reserved, hence skipped like unknown ones."""

    END = 0
    NAK = 1
    RQ_CREDIT = 2
    PORT_STATUS = 3
    CREDIT_RECLAIM = 6
    KEY_SHARE = 7
    COOKIE = 8


PLACED = frozenset({Opcode.WRITE, Opcode.WRITE_IMM, Opcode.SEND, Opcode.SEND_IMM, Opcode.SEND_INV})
SENDS = frozenset({Opcode.SEND, Opcode.SEND_IMM, Opcode.SEND_INV})
WRITES = frozenset({Opcode.WRITE, Opcode.WRITE_IMM})
CONSUMING = SENDS | {Opcode.WRITE_IMM}
ATOMICS = frozenset({Opcode.COMPARE_SWAP, Opcode.FETCH_ADD})
ANSWERED = ATOMICS | {Opcode.READ_REQ}
REQUESTS = PLACED | ANSWERED
RESPONSES = frozenset({Opcode.READ_RESP, Opcode.ATOMIC_RESP})
STREAM_CONTROL = frozenset(op for op in Opcode if op >= Opcode.STREAM_OPEN)
SIZED = PLACED | {Opcode.READ_RESP}  # opcodes with a payload that is part of a message


class Drop(Exception):
    """A datagram is dropped; `counter` is the name of §3.13 or §4 that it is counted under."""

    def __init__(self, counter: str) -> None:
        super().__init__(counter)
        self.counter = counter
