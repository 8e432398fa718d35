"""The part of docs/spec/golden.md about mode 2, from tests/data/wire/golden_mode2.json, which tests/pyref makes.

A conversation is shown as its inputs, what is derived from them, and its datagrams: of a sealed one the bytes in clear,
field by field, and then those that differ on the wire. What needs no cipher is derived here once more, from the datagrams:
transcripts, their hash, the keys, the nonces (RFC 5869, docs/spec/10-security.md).
"""

import hashlib
import hmac

import golden_json

NEEDED = {"name": str, "psk": str | None, "initiator_private": str, "acceptor_private": str, "derived": dict, "datagrams": list}
DATAGRAM = {"name": str, "type": str, "from": str, "hex": str, "fields": dict}
SEALED = {"keys": str, "clear": str, "aad_bytes": int, "nonce": str, "pseq": str}
DIRECTIONS = {"i2a": dict, "a2i": dict}
HEAD = """# Mode 2

Generated from `tests/data/wire/golden_mode2.json`, which also has the bytes in clear, the decoded fields and the full
numbers of each datagram. Two conversations, with the private keys of RFC 7748 §6.1. The packets are also in
`tests/data/wire/golden_mode2.pcapng`. [10-security.md](10-security.md) explains the steps.

"""


def read_datagram(talk, entry):
    if not isinstance(entry, golden_json.Located):
        raise ValueError(f"{talk.where()}: one of its datagrams is no object")
    entry.need(DATAGRAM)
    entry.need_hex("hex")
    if "keys" not in entry:
        return
    entry.need(SEALED)
    entry.need_hex("clear", "nonce")
    try:
        int(entry["pseq"], 16)
    except ValueError:
        raise ValueError(f"{entry.where()}: 'pseq' is not hexadecimal") from None
    keys = talk["derived"].get(entry["keys"])
    if not isinstance(keys, golden_json.Located):
        raise ValueError(f"{entry.where()}: 'derived' has no keys '{entry['keys']}'")
    keys.need({"iv": str})
    keys.need_hex("iv")


def read(text, file="golden_mode2.json"):
    talks = golden_json.objects(text, file)
    for talk in talks:
        talk.need(NEEDED)
        talk.need_hex("initiator_private", "acceptor_private", *(["psk"] if talk["psk"] else []))
        talk["derived"].need({"shared": str} | DIRECTIONS)
        talk["derived"].need_hex("shared")
        for entry in talk["datagrams"]:
            read_datagram(talk, entry)
        for kind in ("INIT", "INIT_ACK"):
            if not any(entry["type"] == kind for entry in talk["datagrams"]):
                raise ValueError(f"{talk.where()}: it has no {kind}")
    return talks


def expand(secret, info, size=60):
    out = block = b""
    while len(out) < size:
        block = hmac.digest(secret, block + info + bytes([len(out) // 32 + 1]), "sha256")
        out += block
    return out[:size]


def split(keys):
    return {"key": keys[:16].hex(), "iv": keys[16:28].hex(), "next_secret": keys[28:].hex()}


def transcript(datagram):
    """From the magic to END, without COOKIE, the payload MTU zero."""
    at = 96 + 24 * datagram[73]
    out = datagram[16:70] + bytes(2) + datagram[72:at]
    while True:
        kind, end = datagram[at], at + 2 + datagram[at + 1]
        out += b"" if kind == 8 else datagram[at:end]
        at = end
        if kind == 0:
            return out


def derive(talk):
    """What `derived` must say but for the results of X25519, of which `shared` is believed."""
    said, psk = talk["derived"], bytes.fromhex(talk["psk"] or "")
    sent = {entry["type"]: bytes.fromhex(entry["hex"]) for entry in talk["datagrams"]}
    scripts = [transcript(sent["INIT"]), transcript(sent["INIT_ACK"])]
    digest = hashlib.sha256(b"".join(scripts)).digest()
    prk = hmac.digest(psk or bytes(32), bytes.fromhex(said["shared"]), "sha256")
    out = {"key_id": (hashlib.sha256(b"mroce key id" + psk).digest()[:8] if psk else bytes(8)).hex(),
           "init_transcript": scripts[0].hex(), "init_ack_transcript": scripts[1].hex(), "transcript_hash": digest.hex(),
           "prk": prk.hex()}
    for direction in ("i2a", "a2i"):
        keys = expand(prk, b"mroce 1 " + direction.encode() + digest)
        for phase in ("", "_phase_1", "_phase_2"):
            out[direction + phase] = split(keys)
            keys = expand(keys[28:], b"mroce 1 update")
    return out


def check(talk):
    for name, value in derive(talk).items():
        if talk["derived"].get(name) != value:
            said = talk["derived"].get(name)
            yield f"{talk['name']}: {name} is {said} in the JSON, and {value} follows from its datagrams"
    for entry in talk["datagrams"]:
        if "keys" not in entry:
            continue
        raw, clear, at = bytes.fromhex(entry["hex"]), bytes.fromhex(entry["clear"]), entry["aad_bytes"]
        number = (0 if entry["type"] == "DATA" else 0x80) | raw[2]
        text = int(talk["derived"][entry["keys"]]["iv"], 16) ^ (number << 64 | int(entry["pseq"], 16))
        if entry["nonce"] != f"{text:024x}":
            yield f"{talk['name']}, {entry['name']}: the nonce is not that of its number"
        if raw[:at] != clear[:at] or len(raw) != len(clear) + 16 or at > len(clear):
            yield f"{talk['name']}, {entry['name']}: what is not encrypted differs from the datagram in clear"
        if int(entry["pseq"], 16) & 0xFFFFFFFF != int.from_bytes(raw[8:12], "big"):
            yield f"{talk['name']}, {entry['name']}: its number is not the one on the wire"


def wrapped(label, text):
    lines = [text[i : i + 64] for i in range(0, len(text), 64)] or [""]
    return "\n".join(f"{label if i == 0 else '':<23} {line}" for i, line in enumerate(lines))


def derivation(talk):
    rows = [("initiator_private", talk["initiator_private"]), ("acceptor_private", talk["acceptor_private"]),
            ("pre-shared key", talk["psk"] or "none")]
    for name, value in talk["derived"].items():
        if isinstance(value, dict):
            rows += [(f"{name} {part}", text) for part, text in value.items()]
        else:
            rows.append((name, value))
    return "\n".join(wrapped(*row) for row in rows)


def section(entry, dissect, dump):
    """`dissect` takes bytes and the size of their trailer; `dump` makes lines of rows."""
    raw = bytes.fromhex(entry["hex"])
    if "keys" not in entry:
        body = "\n".join(dump(dissect(raw, 4).rows))
        return f"{len(raw)} bytes, from the {entry['from']}.\n\n```\n{body}\n```\n\n"
    clear, at = bytes.fromhex(entry["clear"]), entry["aad_bytes"]
    body = "\n".join(dump(dissect(clear + raw[len(clear):], 16).rows))
    text = (f"{len(raw)} bytes, from the {entry['from']}, sealed with the keys `{entry['keys']}`.\n\n```\n"
            f"full PSEQ {entry['pseq']}, nonce {entry['nonce']}, {at} bytes of associated data\n\n{body}\n")
    if at < len(clear):
        text += "\non the wire, instead of the payload:\n\n"
        text += "\n".join(dump([(at, raw[at : len(clear)], "payload, encrypted")])) + "\n"
    return text + "```\n\n"


def build(talks, dissect, dump, compare):
    """The page's part, names and datagrams for the capture, and what is wrong."""
    page, packets, findings = HEAD, [], []
    for talk in talks:
        findings += check(talk)
        page += f"## {talk['name'][0].upper()}{talk['name'][1:]}\n\n```\n{derivation(talk)}\n```\n\n"
        for entry in talk["datagrams"]:
            clear = bytes.fromhex(entry["clear"]) + bytes(16) if "keys" in entry else bytes.fromhex(entry["hex"])
            findings += compare(entry, dissect(clear, 16 if "keys" in entry else 4).found)
            page += f"### {entry['name']}\n\n" + section(entry, dissect, dump)
            packets.append((f"{talk['name']}: {entry['name']}", bytes.fromhex(entry["hex"])))
    return page, packets, findings
