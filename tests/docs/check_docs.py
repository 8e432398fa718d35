#!/usr/bin/env python3
"""Checks the documents against the code.

  check_docs.py PRINT_FIELDS           check; exit status 1 and one line for each finding
  check_docs.py --write PRINT_FIELDS   write docs/spec/fields.md anew first

PRINT_FIELDS is the built mroce_print_fields. What is checked:
  * docs/spec/fields.md is what PRINT_FIELDS prints;
  * every section that is referred to (§5.9) exists, and every relative link leads somewhere, those of
    README.md and below tests/ as well;
  * in docs/spec/11-constants.md the code that a row names stands literally in the file that it names, and
    each row has a reason;
  * every MUST and SHOULD of docs/spec has a number, and every rule that is cited anywhere exists (spec_rules.py);
  * every test vector (a ```hex block) ends in its CRC-32C;
  * every file and folder that ARCHITECTURE.md and HACKING.md name exists.
"""

import pathlib
import re
import subprocess
import sys

import spec_rules

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
SPEC = DOCS / "spec"

FIELDS_HEAD = """# Fields and code points

Generated from `core/wire/fields.def`, the table that the codec itself uses. Do not edit; write it anew with

    ninja -C build/release mroce_print_fields
    python3 tests/docs/check_docs.py --write build/release/core/wire/mroce_print_fields

Offsets of a datagram's own fields count from its first byte; those of repeated parts, of stream control and of TLV
values from the first byte of the part. All integers are big-endian.

"""


def crc32c(data: bytes) -> int:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def without_spaces(text: str) -> str:
    return " ".join(text.split())


def check_fields(print_fields: str, write: bool):
    wanted = FIELDS_HEAD + subprocess.run([print_fields], check=True, capture_output=True, text=True).stdout.rstrip() + "\n"
    path = SPEC / "fields.md"
    if write:
        path.write_text(wanted)
    if not path.exists() or path.read_text() != wanted:
        yield "docs/spec/fields.md is not what mroce_print_fields prints; write it anew as its head says"


def check_sections(files):
    headings = set()
    for path in SPEC.glob("*.md"):
        headings |= set(re.findall(r"^#+ (\d+(?:\.\d+)*) ", path.read_text(), re.M))
    for path in files:
        text = path.read_text()
        for found in re.finditer(r"§(\d+(?:\.\d+)?)", text):
            elsewhere = re.search(r"RFC \d+\s$", text[: found.start()])
            if found[1] not in headings and not elsewhere:
                yield f"{path.relative_to(ROOT)}: there is no section {found[1]}"


def check_links(files):
    for path in files:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
            if "://" not in target and not (path.parent / target).exists():
                yield f"{path.relative_to(ROOT)}: the link {target} leads nowhere"


def check_constants():
    path = SPEC / "11-constants.md"
    rows = 0
    for line in path.read_text().splitlines():
        cells = line.split("|")
        if len(cells) != 7 or cells[1].strip() in ("Constant", "---"):
            continue
        quoted = re.findall(r"`([^`]+)`", cells[4])
        if len(quoted) < 2:
            yield f"docs/spec/11-constants.md: no code for{cells[1]}"
            continue
        rows += 1
        if not cells[5].strip():
            yield f"docs/spec/11-constants.md: no reason for{cells[1]}"
        source = ROOT / quoted[0]
        text = without_spaces(source.read_text()) if source.is_file() else ""
        for piece in quoted[1:]:
            if without_spaces(piece) not in text:
                yield f"docs/spec/11-constants.md:{cells[1]}: '{piece}' does not stand in {quoted[0]}"
    if rows < 90:
        yield f"docs/spec/11-constants.md: only {rows} rows were understood"


def check_vectors():
    blocks = re.findall(r"```hex\n(.*?)```", (SPEC / "03-packets.md").read_text(), re.S)
    if not blocks:
        yield "docs/spec/03-packets.md has no test vectors"
    for block in blocks:
        data = bytes.fromhex("".join(block.split()))
        if crc32c(data[:-4]) != int.from_bytes(data[-4:], "big"):
            yield f"docs/spec/03-packets.md: wrong trailer in the test vector {data[:4].hex()}…"


def check_named_files():
    for name in ("ARCHITECTURE.md", "HACKING.md"):
        path = DOCS / name
        for word in re.findall(r"`([A-Za-z_.][\w.-]*/[\w./-]*)`", path.read_text()):
            if not word.startswith("build/") and not (ROOT / word).exists():
                yield f"docs/{name}: there is no {word}"


def main() -> int:
    arguments = sys.argv[1:]
    write = arguments[:1] == ["--write"]
    if len(arguments) != 1 + write:
        print(__doc__, file=sys.stderr)
        return 2
    files = sorted(DOCS.rglob("*.md"))
    others = [ROOT / "README.md", *sorted((ROOT / "tests").rglob("*.md"))]
    findings = [*check_fields(arguments[-1], write), *check_sections(files), *check_links([*files, *others]),
                *check_constants(), *check_vectors(), *check_named_files(), *spec_rules.load()[1]]
    for finding in findings:
        print(finding)
    print(f"{len(files) + len(others)} documents, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
