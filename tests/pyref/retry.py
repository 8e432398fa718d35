"""RETRY of an acceptor (§10.4): while many connections are not validated, an INIT must show that its sender can be
reached."""

import hashlib
import hmac

from .packets import Init

RETRY_ABOVE = 64
SLOT = 4_000_000_000
SLOT_BYTES, MAC_BYTES = 4, 16


class Cookies:
    """Cookies are made from a key of the endpoint and the time; nothing of an INIT is kept."""

    def __init__(self, key: bytes) -> None:
        self.key = key

    def _cookie(self, slot: int, address: str, init: Init) -> bytes:
        head = (slot & 0xFFFFFFFF).to_bytes(SLOT_BYTES, "big")
        what = head + init.scid.to_bytes(4, "big") + init.nonce.to_bytes(8, "big") + init.listen_port.to_bytes(2, "big")
        return head + hmac.digest(self.key, what + address.encode(), hashlib.sha256)[:MAC_BYTES]

    def make(self, address: str, init: Init, now: int) -> bytes:
        return self._cookie(now // SLOT, address, init)

    def good(self, address: str, init: Init, now: int) -> bool:
        """Of this slot or the one before."""
        cookie = init.cookie
        return cookie is not None and any(hmac.compare_digest(cookie, self._cookie(slot, address, init))
                                          for slot in (now // SLOT, now // SLOT - 1))
