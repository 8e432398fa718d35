#!/usr/bin/env python3
"""Holds every #include of the sources against the list in docs/ARCHITECTURE.md, "Who may include whom".

Exit status 1 and a line for each #include that goes against an arrow, for each folder with sources that has no arrow,
and for each header of the system in core/ with which it could tell the time, start a thread, open a socket or throw dice.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOREIGN_TO_CORE = re.compile(r"<(chrono|ctime|time\.h|random|thread|mutex|shared_mutex|condition_variable|future|atomic"
                             r"|sys/.*|net/.*|netinet/.*|arpa/.*|unistd\.h|pthread\.h|poll\.h|openssl/rand\.h)>")
TIME_UNITS = ("core/base/time.h", "<chrono>")


def read_arrows():
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    block = re.search(r"```include-arrows\n(.*?)```", text, re.S)
    if block is None:
        sys.exit("docs/ARCHITECTURE.md has no list of include arrows")
    lines = (line.partition("->") for line in block[1].splitlines())
    return {folder.strip(): targets.split() for folder, _, targets in lines}


def is_within(name, place):
    return name == place or name.startswith(place + "/")


def findings_of(name, text, arrows):
    folder = next((f for f in arrows if is_within(name, f)), None)
    if folder is None:
        yield f"{name}: its folder has no arrow in docs/ARCHITECTURE.md"
        return
    for target in re.findall(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', text, re.M):
        if "/" in target and not any(is_within(target, place) for place in (folder, *arrows[folder])):
            yield f"{name} includes {target}: no arrow leads from {folder} there"
    for header in re.findall(r"^[ \t]*#[ \t]*include[ \t]*(<[^>]+>)", text, re.M):
        if is_within(name, "core") and FOREIGN_TO_CORE.fullmatch(header) and (name, header) != TIME_UNITS:
            yield f"{name} includes {header}: core/ gets time, chance and datagrams as arguments"


def main():
    arrows = read_arrows()
    tops = [top for top in ROOT.iterdir() if top.is_dir() and top.name != "build" and not top.name.startswith(".")]
    files = sorted(path for top in tops for path in top.rglob("*") if path.suffix in (".cc", ".h", ".def"))
    findings = [finding for path in files
                for finding in findings_of(path.relative_to(ROOT).as_posix(), path.read_text(), arrows)]
    print(*findings, f"{len(files)} sources, {len(arrows)} arrows, {len(findings)} findings", sep="\n")
    return 1 if findings or len(files) < 500 else 0


if __name__ == "__main__":
    sys.exit(main())
