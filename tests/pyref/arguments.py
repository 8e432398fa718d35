"""Members of a request of the control protocol: each is checked before it is used."""

from typing import Any

MOST32, MOST64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


class CommandError(Exception):
    """A request that cannot be carried out; the text is the answer's `error`."""

    def __init__(self, text: str, unsupported: bool = False) -> None:
        super().__init__(text)
        self.unsupported = unsupported


Request = dict[str, Any]


def number(request: Request, name: str, low: int, high: int, default: int | None = None) -> int:
    """A JSON number that is an integer."""
    value = request.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise CommandError(f"{name} must be an integer from {low} to {high}")
    return value


def wide(request: Request, name: str) -> int:
    """A number of up to 64 bits: 0x and hexadecimal digits; a JSON number is taken as well."""
    value = request.get(name, 0)
    if isinstance(value, str) and value.startswith("0x") and 3 <= len(value) <= 18:
        try:
            return int(value[2:], 16)
        except ValueError:
            pass
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST64:
        return value
    raise CommandError(f"{name} must be 0x and up to 16 hexadecimal digits")


def octets(request: Request, name: str) -> bytes:
    value = request.get(name)
    try:
        if isinstance(value, str):
            return bytes.fromhex(value)
    except ValueError:
        pass
    raise CommandError(f"{name} must be two hexadecimal digits for each byte")


def choice(request: Request, name: str, allowed: tuple[str, ...], default: str | None = None) -> str:
    value = request.get(name, default)
    if not isinstance(value, str) or value not in allowed:
        raise CommandError(f"{name} must be one of: {', '.join(allowed)}")
    return value


def rights(request: Request, name: str, default: frozenset[str] | None) -> set[str]:
    """A list of access rights."""
    allowed = {"local_write", "remote_write", "remote_read", "remote_atomic"}
    value = request.get(name, None if default is None else list(default))
    if not isinstance(value, list) or any(not isinstance(item, str) or item not in allowed for item in value):
        raise CommandError(f"{name} must be a list of: {', '.join(sorted(allowed))}")
    return set(value)


def flag(request: Request, name: str) -> bool:
    return request.get(name, False) is True
