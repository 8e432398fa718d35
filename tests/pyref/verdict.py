"""What a stream answers when it is handed a packet (§5.3): accept, reject with a NAK code, or drop."""

from dataclasses import dataclass

from .codepoints import Nak


@dataclass(frozen=True)
class Verdict:
    accepted: bool = False
    code: int = 0
    arg: int = 0


ACCEPT = Verdict(accepted=True)
DROP = Verdict()


def reject(code: Nak, arg: int = 0) -> Verdict:
    return Verdict(False, code, arg)
