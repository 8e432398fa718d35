#!/usr/bin/env python3
"""The appendix of golden packets: docs/spec/golden.md and captures, from tests/data/wire/golden.json and golden_mode2.json.

  golden_page.py           writes them
  golden_page.py --check   exit status 1 and one line for each finding: they are not what the JSON gives, or it is wrong

golden.json is a list of {"name", "hex", "fields"}: whole datagrams with their trailers, made from the specification and
not by the codec. Each is taken apart here once more, with the tables of docs/spec/fields.md: each byte of the page has
a name, and what "fields" says must agree, by the names of fields.md (numbers, "0x…" and the names of code points are
all right; lists and objects may group them; a name that fields.md does not have is a note). The captures are
tests/data/wire/golden.pcapng and golden_mode2.pcapng. Mode 2 is in golden_mode2_page.py.
"""

import ipaddress
import pathlib
import re
import sys

import golden_json
import golden_mode2_page
from golden_pcapng import capture

ROOT = pathlib.Path(__file__).resolve().parents[2]
JSON = ROOT / "tests" / "data" / "wire" / "golden.json"
PCAPNG = ROOT / "tests" / "data" / "wire" / "golden.pcapng"
JSON_2 = ROOT / "tests" / "data" / "wire" / "golden_mode2.json"
PCAPNG_2 = ROOT / "tests" / "data" / "wire" / "golden_mode2.pcapng"
PAGE = ROOT / "docs" / "spec" / "golden.md"
FIELDS = ROOT / "docs" / "spec" / "fields.md"

HEAD = """# Golden packets

Generated from `tests/data/wire/golden.json` by `python3 tests/docs/golden_page.py`. Do not edit. Each is a whole
datagram, as it stands behind the UDP header; the left column counts its bytes. [fields.md](fields.md) explains the names.

**They test a codec only**: how bytes become fields and fields bytes. Some must not be sent by any endpoint, and a receiver
drops some ("init of another magic", numbers and codes at their extremes, reserved codes such as REFUSE with NONE or NAK with
NO_RESOURCE, TLVs where this version sends none); numbers do not fit together from one packet to the next. What may be sent,
and what becomes of it, the chapters say. (The two conversations of mode 2 are whole.)

The same packets, with Ethernet, IPv4 and UDP headers before them, are in `tests/data/wire/golden.pcapng`. Mode 2 is at
the end.

"""


def crc32c(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


class Tables:
    """What fields.md says: the fields of each packet, by the first words of its heading, and the names of values."""

    def __init__(self, text):
        self.packets, self.values = {}, {}
        for title, body in re.findall(r"^### ([^\n]*)\n(.*?)(?=^### |\Z)", text, re.M | re.S):
            fields = re.findall(r"^\| (\d+)(?:-\d+)?(?: \(bits (\d)-(\d)\))? \| (\w+) \| (\d+) \|", body, re.M)
            if fields:
                self.packets[title] = [(name, int(at), int(bits), int(low or 0)) for at, _, low, name, bits in fields]
            else:
                rows = re.findall(r"^\| (0x[0-9a-f]+|\d+) \| (\w+) \|", body, re.M)
                self.values[title] = {int(value, 0): name for value, name in rows}

    def packet(self, start):
        found = [fields for title, fields in self.packets.items() if title.startswith(start)]
        if len(found) != 1:
            raise ValueError(f"fields.md has {len(found)} tables that begin with '{start}'")
        return found[0]

    def names(self, start):
        return next(values for title, values in self.values.items() if title.startswith(start))

    def extension(self, op):
        """The table whose heading lists this opcode, or none."""
        for title, fields in self.packets.items():
            listed = re.match(r"DATA extension of (.*)", title)
            if listed and op in re.split(r", | and ", listed[1]):
                return fields
        return []


class Dissector:
    def __init__(self, tables, data, trailer=4):
        self.tables, self.data, self.trailer = tables, data, trailer
        self.rows = []  # first byte, bytes, text
        self.found = {}  # name of the field: its values, in order
        self.stopped = None  # where a packet that is cut off stopped making sense
        self.end = len(data) - trailer if len(data) >= trailer else len(data)  # where the trailer begins

    def row(self, at, size, text):
        if size > 0:
            self.rows.append((at, self.data[at : at + size], text))

    def put(self, name, value, word=""):
        self.found.setdefault(name, []).append((value, word))

    def table(self, fields, base, words=None):
        """The fields of one table from `base`; returns where they end."""
        if self.stopped is not None:
            return self.stopped
        words = words or {}
        end, texts = base + fields[0][1], []
        for name, at, bits, low in fields:
            size = max(1, bits // 8)
            raw = self.data[base + at : base + at + size]
            if base + at + size > self.end:
                self.stopped = end
                break
            value = int.from_bytes(raw, "big") >> low & ((1 << bits) - 1)
            word = words[name](value) if name in words else ""
            self.put(name, value, word)
            shown = "…" if bits > 64 else f"0x{value:x}" if value > 9 else str(value)
            texts.append(f"{name} {shown}" + (f" {word}" if word else ""))
            if bits >= 8 or low == 0:
                self.row(base + at, size, ", ".join(texts))
                texts = []
            end = base + at + size
        return end

    def lookup(self, title):
        names = self.tables.names(title)
        return lambda value: names.get(value, "unknown")

    def flags(self, title):
        names = self.tables.names(title)
        return lambda value: " ".join(name for mask, name in names.items() if value & mask)

    def read(self):
        words = {"type": self.lookup("Packet types"), "flags": self.flags("Flags of the common header")}
        at = self.table(self.tables.packet("Common header"), 0, words)
        kind = self.found["type"][0][1] if "type" in self.found else ""
        by_type = {"DATA": self.data_packet, "ACK": self.ack, "PROBE": self.probe}
        by_type |= {"INIT": self.init, "INIT_ACK": self.init}
        if kind in by_type and at == 16:
            at = by_type[kind](kind)
        elif at == 16:
            titles = [t for t in self.tables.packets if re.match(rf"(\w+ and )?{kind}( and \w+)?, behind", t)]
            at = self.table(self.tables.packets[titles[0]], 0) if titles else at
            if kind == "VERSION" and "count" in self.found:
                versions = min(self.found["count"][0][0], self.end - at)
                self.row(at, versions, "versions")
                at += versions
            if kind == "RETRY" and "length" in self.found:
                cookie = min(self.found["length"][0][0], self.end - at)
                self.row(at, cookie, "cookie")
                at += cookie
            if "EXT" in self.found["flags"][0][1]:
                at = self.tlvs(at)
        self.row(at, self.end - at, "the rest")
        if self.trailer == 16:
            self.row(self.end, 16, "trailer: tag of AES-128-GCM")
        elif len(self.data) >= 4:
            good = crc32c(self.data[:-4]) == int.from_bytes(self.data[-4:], "big")
            self.row(self.end, 4, "trailer: CRC-32C" + ("" if good else ", which is wrong"))
        return self

    def data_packet(self, _):
        codes = {"status": self.lookup("NAK codes")}
        at = self.table(self.tables.packet("DATA, behind"), 0, {"op": self.lookup("Opcodes of DATA")})
        op = self.found["op"][0][1] if "op" in self.found else "unknown"
        extension = self.tables.extension(op)
        at = self.table(extension, 0, codes) if extension else at
        if "EXT" in self.found["flags"][0][1]:
            at = self.tlvs(at, until_end=True)
        control = self.tables.packet("Payload of STREAM_")
        if (op.startswith("STREAM_") or op == "CREDIT_RETURN") and self.end - at == 32:
            return self.table(control, at, {"reason": self.lookup("Reasons of"), "code": self.lookup("NAK codes")})
        self.row(at, self.end - at, "payload")
        return self.end

    def ack(self, _):
        at = self.table(self.tables.packet("ACK, behind"), 0)
        for _ in range(min(4, self.found["nblocks"][0][0] if "nblocks" in self.found else 0)):
            at = self.table(self.tables.packet("Path block"), at)
        return self.tlvs(at)

    def tlvs(self, at, until_end=False):
        while self.end - at >= 2:
            kind, length = self.data[at], self.data[at + 1]
            name = self.tables.names("TLVs").get(kind, "unknown")
            self.row(at, 2, f"TLV {name}, {length} bytes")
            self.put("type", kind, name)
            value, at = at + 2, at + 2 + length
            known = f"Value of {name}"
            if known in self.tables.packets and at <= self.end:
                self.table(self.tables.packets[known], value, {"code": self.lookup("NAK codes")})
            else:
                self.row(value, min(at, self.end) - value, "value")
            if until_end and name == "END":
                break
        return min(at, self.end)

    def probe(self, _):
        at = self.table(self.tables.packet("PROBE, behind"), 0, {"kind": self.lookup("Kinds of PROBE")})
        for _ in range(min(64, self.found["nstreams"][0][0] if "nstreams" in self.found else 0)):
            if at + 2 > self.end:
                break
            stream = int.from_bytes(self.data[at : at + 2], "big")
            self.put("stream", stream)
            self.row(at, 2, f"stream 0x{stream:x}")
            at += 2
        self.row(at, self.end - at, "padding")
        return self.end

    def init(self, kind):
        listed = "EXT" in self.found["flags"][0][1]
        words = {"flags": self.flags("Flags of INIT_ACK")} if kind == "INIT_ACK" else {}
        at = self.table(self.tables.packet("INIT and INIT_ACK, behind"), 0, words)
        for _ in range(min(8, self.found["nports"][0][0] if "nports" in self.found else 0)):
            at = self.table(self.tables.packet("Port of INIT"), at)
        if listed:
            at = self.tlvs(at, until_end=True)
        self.row(at, self.end - at, "padding")
        return self.end


def flatten(fields, name=""):
    if isinstance(fields, dict):
        for key, value in fields.items():
            yield from flatten(value, key)
    elif isinstance(fields, list):
        for value in fields:
            yield from flatten(value, name)
    else:
        yield name, fields


def agrees(said, value, word):
    if isinstance(said, int):
        return said == value
    said = str(said)
    for meant in (
        lambda: int(said, 0),
        lambda: int(said, 16) if len(said) >= 8 else None,  # ids and tokens
        lambda: int(ipaddress.ip_address(said)),
        lambda: 0xFFFF << 32 | int(ipaddress.IPv4Address(said)),
    ):
        try:
            if meant() == value:
                return True
        except ValueError:
            pass
    return bool(word) and set(re.split(r"[ |,+]+", said)) == set(word.split())


def compare(vector, found):
    """What "fields" says against what the tables give. A name that occurs more than once need be right once."""
    compared = 0
    for name, said in flatten(vector["fields"]):
        if name not in found or said is None:
            continue
        compared += 1
        if not any(agrees(said, value, word) for value, word in found[name]):
            yield f"{vector['name']}: '{name}' is {said} in the JSON and {found[name][0][0]:#x} in the bytes"
    if compared == 0:
        yield f"{vector['name']}: none of its fields has a name of fields.md"


def dump(rows):
    for at, data, text in rows:
        if len(data) > 64 and len(set(data)) == 1:
            yield f"{at:04x}  {data[0]:02x} × {len(data):<40} {text}"
            continue
        for start in range(0, len(data), 16):
            part = data[start : start + 16].hex(" ")
            yield f"{at + start:04x}  {part:<47} {text if start == 0 else ''}".rstrip()


def read_vectors(text, file="golden.json"):
    vectors = golden_json.objects(text, file)
    for vector in vectors:
        vector.need({"name": str, "hex": str, "fields": dict})
        vector.need_hex("hex")
        vector["bytes"] = bytes.fromhex("".join(str(vector["hex"]).split()))
    return vectors


def build(vectors, tables):
    """The page, the capture, and what is wrong with the vectors."""
    page, findings, names = HEAD, [], set()
    for vector in vectors:
        if vector["name"] in names:
            findings.append(f"{vector['name']}: the name occurs twice")
        names.add(vector["name"])
        dissector = Dissector(tables, vector["bytes"]).read()
        findings += compare(vector, dissector.found)
        body = "\n".join(dump(dissector.rows))
        page += f"## {vector['name']}\n\n{len(vector['bytes'])} bytes.\n\n```\n{body}\n```\n\n"
    return page.rstrip() + "\n", capture([(vector["name"], vector["bytes"]) for vector in vectors]), findings


def build_all(vectors, talks, tables):
    """The whole page, the files, and what is wrong."""
    page, packets, findings = build(vectors, tables)

    def dissect(data, trailer):
        return Dissector(tables, data, trailer).read()

    part, sealed, wrong = golden_mode2_page.build(talks, dissect, dump, compare)
    files = {PAGE: (page + "\n" + part.rstrip() + "\n").encode(), PCAPNG: packets, PCAPNG_2: capture(sealed)}
    return files, findings + wrong


def main() -> int:
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    for needed in (JSON, JSON_2):
        if not needed.exists():
            print(f"{needed.relative_to(ROOT)} is missing: without it there is no appendix of golden packets to check")
            return 1
    try:
        vectors = read_vectors(JSON.read_text(), JSON.relative_to(ROOT))
        talks = golden_mode2_page.read(JSON_2.read_text(), JSON_2.relative_to(ROOT))
    except ValueError as error:
        print(f"the golden packets cannot be read: {error}")
        return 1
    files, findings = build_all(vectors, talks, Tables(FIELDS.read_text()))
    if not vectors:
        findings.append(f"{JSON.relative_to(ROOT)} has no packets")
    if not sys.argv[1:]:
        for path, content in files.items():
            path.write_bytes(content)
    for path, wanted in files.items():
        if not path.exists() or path.read_bytes() != wanted:
            name = path.relative_to(ROOT)
            findings.append(f"{name} is not what the JSON gives; write it anew with tests/docs/golden_page.py")
    for finding in findings:
        print(finding)
    print(f"{len(vectors)} golden packets and {len(talks)} conversations of mode 2, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
