"""Mode 2 of one connection: sealing what is sent, opening what arrives, key phases, replay (§10.3.3–§10.3.5)."""

from __future__ import annotations

from .codepoints import HEADER_BYTES, TAG_BYTES, Drop, Flag, PacketType
from .data_codec import clear_bytes
from .key_schedule import PhaseKeys
from .numbers import expand
from .packets import Header

UPDATE_AFTER = 1 << 23
MOST_OF_A_KEY = 1 << 24
MOST_FAILURES = 1 << 36
REPLAY_BITS = 64


def seal(keys: PhaseKeys, is_data: bool, path: int, pseq: int, clear: bytes, payload: bytes) -> bytes:
    """A whole datagram: of DATA the payload is encrypted, of all others there is none."""
    return clear + keys.gcm.seal(keys.nonce(is_data, path, pseq), clear, payload)


class Sealer:
    """The sender's keys."""

    def __init__(self, keys: PhaseKeys, update_after: int = UPDATE_AFTER) -> None:
        self.keys, self.update_after = keys, update_after
        self.phase = self.updates = 0
        self.sealed = 0  # datagrams of this phase
        self.confirmed = False
        self.first_cpsn = 0  # that was cut in this phase
        self.tokens: set[int] = set()  # of PROBEs of this phase

    @property
    def due(self) -> bool:
        return self.sealed >= self.update_after

    @property
    def exhausted(self) -> bool:
        return self.sealed >= MOST_OF_A_KEY

    def accepted(self, cpsn: int) -> None:
        """A packet was accepted."""
        self.confirmed |= cpsn >= self.first_cpsn

    def answered(self, token: int) -> None:
        """A PROBE_ACK has come."""
        self.confirmed |= token in self.tokens

    def update(self, next_cpsn: int) -> bool:
        """Begin the next phase if it is due and allowed (§10.3.4-2, §10.3.4-3)."""
        if not self.due or not self.confirmed:
            return False
        self.keys, self.phase, self.updates = self.keys.next(), self.phase ^ 1, self.updates + 1
        self.sealed, self.confirmed, self.first_cpsn = 0, False, next_cpsn
        self.tokens.clear()
        return True

    def flags(self) -> int:
        return Flag.EPH if self.phase else 0

    def seal(self, header: Header, full_pseq: int, plain: bytes) -> bytes:
        """`plain` is the datagram without its trailer, with the flag of this phase in its header."""
        self.sealed += 1
        is_data = header.type == PacketType.DATA
        at = HEADER_BYTES + clear_bytes(plain[HEADER_BYTES:], header.flags) if is_data else len(plain)
        return seal(self.keys, is_data, header.path, full_pseq, plain[:at], plain[at:])


class Replay:
    """Which numbers of one path were authenticated: the highest, and the 63 below it."""

    def __init__(self) -> None:
        self.highest: int | None = None
        self.seen = 0

    def take(self, pseq: int) -> bool:
        """False if it was there before or is too old."""
        if self.highest is None:
            self.highest, self.seen = pseq, 1
            return True
        ahead = pseq - self.highest
        if ahead > 0:
            self.highest, self.seen = pseq, (self.seen << ahead | 1) & ((1 << REPLAY_BITS) - 1)
            return True
        if ahead <= -REPLAY_BITS or self.seen >> -ahead & 1:
            return False
        self.seen |= 1 << -ahead
        return True


class Unsealer:
    """The receiver's keys and numbers."""

    def __init__(self, keys: PhaseKeys, first_pseq: int) -> None:
        self.keys, self.following = keys, keys.next()
        self.before: PhaseKeys | None = None
        self.before_until = 0
        self.phase = 0
        self.first_pseq = first_pseq
        self.highest: dict[int, int] = {}  # of DATA, by path
        self.replay: dict[int, Replay] = {}
        self.failures = 0

    def _expected(self, header: Header) -> int:
        if header.type == PacketType.DATA:
            return self.highest.get(header.path, self.first_pseq)
        replay = self.replay.get(header.path)
        return replay.highest or 0 if replay is not None else 0

    def _candidates(self, eph: int, now: int) -> list[PhaseKeys]:
        if eph == self.phase:
            return [self.keys]
        if self.before is not None and now >= self.before_until:
            self.before = None
        return ([self.before] if self.before is not None else []) + [self.following]

    def _open(self, header: Header, pseq: int, raw: bytes, now: int, pto: int) -> bytes | None:
        is_data = header.type == PacketType.DATA
        end = len(raw) - TAG_BYTES
        try:
            at = HEADER_BYTES + clear_bytes(raw[HEADER_BYTES:end], header.flags) if is_data else end
        except Drop:
            return None
        for keys in self._candidates(int(header.has(Flag.EPH)), now):
            payload = keys.gcm.open(keys.nonce(is_data, header.path, pseq), raw[:at], raw[at:])
            if payload is not None:
                if keys is self.following:
                    self.before, self.before_until = self.keys, now + 3 * pto
                    self.keys, self.following, self.phase = keys, keys.next(), self.phase ^ 1
                return raw[:at] + payload
        return None

    def open(self, header: Header, raw: bytes, now: int, pto: int) -> bytes:
        """The datagram in clear, with room for the tag behind it so that offsets stay; a Drop changes nothing but counts."""
        if len(raw) < HEADER_BYTES + TAG_BYTES:
            raise Drop("drop_truncated")
        pseq = expand(header.pseq, self._expected(header))
        opened = self._open(header, pseq, raw, now, pto)
        if opened is None:
            self.failures += 1
            raise Drop("drop_tag")
        if header.type == PacketType.DATA:
            self.highest[header.path] = max(self.highest.get(header.path, pseq), pseq)
        elif not self.replay.setdefault(header.path, Replay()).take(pseq):
            raise Drop("drop_replay")
        return opened + bytes(TAG_BYTES)
