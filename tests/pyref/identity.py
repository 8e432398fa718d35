"""What an endpoint is and demands in the handshake (§10.1), and what each end of a connection makes for itself (§4.3)."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .codepoints import Drop
from .key_schedule import agree, key_id
from .packets import Init, KeyShare
from .x25519 import public_key


@dataclass(frozen=True)
class Security:
    """The policy of an endpoint: the modes that it allows, and its pre-shared key."""

    modes: frozenset[int] = frozenset({0})
    psk: bytes | None = None

    @property
    def offer(self) -> int:
        return sum(1 << mode for mode in self.modes)

    def choose(self, offered: int) -> int:
        """Of the modes that are offered and allowed, the highest."""
        both = [mode for mode in self.modes if offered >> mode & 1]
        if not both:
            raise Drop("drop_security")
        return max(both)

    def check_share(self, init: Init) -> KeyShare:
        """§10.3.1-5 to §10.3.1-7, of an INIT or INIT_ACK of mode 2."""
        share = init.key_share
        if share is None:
            raise Drop("drop_malformed")
        if share.key_id != key_id(self.psk):
            raise Drop("drop_key_id")
        return share


POLICIES = {"off": frozenset({0}), "prefer": frozenset({0, 2}), "require": frozenset({2})}


@dataclass
class OwnEnd:
    """Ids, numbers and private key of one end of one connection."""

    cid: int
    reset_token: bytes
    first_cpsn: int
    first_pseq: int
    nonce: int
    private: bytes
    control_pseq: int = 0  # the next of path 0

    @classmethod
    def make(cls, cid: int, source: random.Random) -> OwnEnd:
        return cls(cid, source.randbytes(16), source.getrandbits(32), source.getrandbits(32), source.getrandbits(64),
                   source.randbytes(32))

    def share(self, security: Security) -> KeyShare:
        return KeyShare(public_key(self.private), key_id(security.psk))

    def agree(self, share: KeyShare) -> bytes:
        return agree(self.private, share.public_key)
