#!/usr/bin/env python3
"""The numbered rules of docs/spec.

  spec_rules.py           counts the rules of each section, and checks them; exit status 1 if there is a finding
  spec_rules.py --json    prints all rules as a JSON list of {id, section, title, level, sentence, file, line}

A rule is a sentence with exactly one of MUST, MUST NOT, SHOULD, SHOULD NOT, which ends in its number in brackets. It may be
an item of a list whose introduction has the key word ("MUST drop it if", then items that end in numbers), or a cell
of a table. Text that explains has no key words to look for: paragraphs that begin with *Why*, and parentheses that
begin with "why". docs/spec/README.md says how numbers are given.
"""

import json
import pathlib
import re
import sys
from dataclasses import asdict, dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
SPEC = ROOT / "docs" / "spec"

KEYWORD = re.compile(r"\b(?:MUST|SHOULD)(?: NOT)?\b")
FOREIGN = re.compile(r"\b(?:SHALL|REQUIRED|RECOMMENDED|OPTIONAL)\b")
MARK = re.compile(r"\s*\[§(\d+(?:\.\d+)+)-(\d+)\]")
ENDS = re.compile(r"\[§[\d.]+-\d+\][.:;,]?|[.!?](?=\s|$)")
WHY = re.compile(r"\*{1,2}(?:Why|Price)\b")
REFERENCE = re.compile(r"§(\d+(?:\.\d+)+-\d+)")
SOURCES = {".md", ".cc", ".h", ".def", ".py", ".txt", ".toml", ".json", ".sh", ".patch", ".cmake", ""}


@dataclass
class Rule:
    id: str
    section: str
    title: str
    level: str
    sentence: str
    file: str
    line: int


@dataclass
class Block:
    """A paragraph, an item of a list, or a row of a table."""
    kind: str
    section: str
    title: str
    line: int
    lines: list


def binding_files():
    """Chapters 2 to 11; the synopsis and the mapping to verbs explain."""
    return [path for path in sorted(SPEC.glob("[0-9][0-9]-*.md")) if 2 <= int(path.name[:2]) <= 11]


def blocks_of(text):
    section, title, code, block = "", "", False, None
    for number, line in enumerate(text.splitlines(), 1):
        heading = re.match(r"#+ (\d+(?:\.\d+)*) (.*)", line)
        item = re.match(r"\s*(?:[*-]|\d+\.) ", line)
        if line.startswith("```"):
            code = not code
        starts = item or line.startswith("|")
        ends = not line.strip() or heading or line.startswith("```") or code
        if block and (starts or ends):
            yield block
            block = None
        if heading:
            section, title = heading[1], heading[2]
        if ends:
            continue
        if block is None:
            kind = "row" if line.startswith("|") else "item" if item else "paragraph"
            block = Block(kind, section, title, number, [])
        block.lines.append(line[item.end():] if item else line.strip())
    if block:
        yield block


def binding_text(text):
    """Without what explains; characters keep their places."""
    found = WHY.search(text)
    text = text[: found.start()] if found else text
    return re.sub(r"\(why[^()]*(?:\([^()]*\)[^()]*)*\)", lambda part: " " * len(part[0]), text)


def sentences_of(text):
    start = 0
    for end in [*(found.end() for found in ENDS.finditer(text)), len(text)]:
        if text[start:end].strip():
            yield start, text[start:end]
        start = end


def plain(text):
    text = " ".join(MARK.sub("", text).split()).rstrip(" .:;,")
    return re.sub(r" ([,.;:])", r"\1", text)


def unfinished(text):
    """The last sentence of an introduction that a list goes on with, if there is one."""
    last = [sentence for _, sentence in sentences_of(binding_text(text))][-1:]
    return last[0].strip() if last and not re.search(r"[.!?;]$", last[0].strip()) else ""


class Reader:
    def __init__(self, name, text):
        self.name, self.text = name, text
        self.rules, self.findings = [], []

    def complain(self, line, what):
        self.findings.append(f"{self.name}:{line}: {what}")

    def take(self, block, line, sentence, before, lead):
        """One sentence; `before` is what is read before it, `lead` the introduction of its list."""
        words, marks = KEYWORD.findall(sentence), MARK.findall(sentence)
        if FOREIGN.search(sentence):
            self.complain(line, f"only MUST, SHOULD and MAY are used here: {plain(sentence)}")
        if not words and not marks:
            return
        if not words and len(marks) == 1:
            words = KEYWORD.findall(lead)
        if len(words) != 1 or len(marks) != 1:
            self.complain(line, f"{len(words)} key words and {len(marks)} numbers in one sentence: {plain(sentence)}")
            return
        number = f"§{marks[0][0]}-{marks[0][1]}"
        if marks[0][0] != block.section:
            self.complain(line, f"{number} stands in section {block.section}")
        said = " ".join(part for part in (before, plain(sentence)) if part)
        said = said if said.endswith((".", ":")) else said + "."
        self.rules.append(Rule(number, block.section, block.title, words[0], said, self.name, line))

    def read(self):
        lead, headers = "", []
        blocks = list(blocks_of(self.text))
        for place, block in enumerate(blocks):
            following = blocks[place + 1] if place + 1 < len(blocks) else None
            if block.kind == "row":
                headers = self.read_row(block, headers)
                continue
            headers = []
            asks = block.kind == "item" and KEYWORD.search(lead) and not MARK.search(lead)
            if asks and not MARK.search("\n".join(block.lines)):
                self.complain(block.line, f"an item of a rule without a number: {plain(block.lines[0])}")
            text = binding_text("\n".join(block.lines))
            goes_on = block.kind == "paragraph" and following is not None and following.kind == "item"
            opened = unfinished(text) if goes_on and following.section == block.section else ""
            for start, sentence in sentences_of(text):
                line = block.line + text[: start + len(sentence) - len(sentence.lstrip())].count("\n")
                if opened and sentence.strip() == opened and not MARK.search(sentence):
                    continue
                continues = block.kind == "item" and sentence.strip()[:1].islower() and start == 0
                inherits = block.kind == "item" and not KEYWORD.search(sentence)
                before = plain(lead) + (":" if lead.endswith(":") else "") if continues or inherits else ""
                self.take(block, line, sentence, before, lead)
            if block.kind == "paragraph":
                lead = opened
        return self

    def read_row(self, block, headers):
        cells = [cell.strip() for cell in block.lines[0].strip().strip("|").split("|")]
        if not headers:
            headers = [re.sub(r"^#$", "", cell) for cell in cells]
        for place, cell in enumerate(cells):
            before = "; ".join(f"{headers[i]}: {plain(cells[i])}" for i in range(place) if i < len(headers) and headers[i])
            named = place < len(headers) and headers[place] not in ("", cell)
            for _, sentence in sentences_of(binding_text(cell)):
                prefix = (before + "; " if before else "") + (f"{headers[place]}:" if named else "")
                self.take(block, block.line, sentence, prefix.strip(), "")
        return headers


def withdrawn():
    path = SPEC / "changes.md"
    lines = re.findall(r"^\* Withdrawn: (.*)$", path.read_text(), re.M) if path.exists() else []
    return {"§" + found for line in lines for found in REFERENCE.findall(line)}


def check_numbers(rules, gone):
    """Within a section 1, 2, 3 …; what is left out was withdrawn, and what was withdrawn is not used again."""
    last = {}
    for rule in rules:
        number = int(rule.id.rsplit("-", 1)[1])
        expected = last.get(rule.section, 0) + 1
        while f"§{rule.section}-{expected}" in gone and expected < number:
            expected += 1
        if rule.id in gone:
            yield f"{rule.file}:{rule.line}: {rule.id} was withdrawn; a number is never used again"
        if number != expected:
            yield f"{rule.file}:{rule.line}: {rule.id} stands where {expected} is due"
        last[rule.section] = number


def check_references(rules, files, gone):
    known = {rule.id for rule in rules}
    for name, text in files:
        for found in REFERENCE.finditer(text):
            number = "§" + found[1]
            allowed = number in known or (name.endswith("changes.md") and number in gone)
            if not allowed and not re.search(r"RFC \d+\s$", text[: found.start()]):
                line = text[: found.start()].count("\n") + 1
                yield f"{name}:{line}: there is no rule {number}"


def repository_files():
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        if any(part.startswith(".") or part.startswith("build") for part in parts) or path.suffix not in SOURCES:
            continue
        if path.is_file() and path.stat().st_size < 1 << 20 and path.name != "spec_rules_test.py":
            text = path.read_bytes().decode("utf-8", "replace")
            if "§" in text:
                yield str(path.relative_to(ROOT)), text


def load():
    """All rules, and what is wrong with them."""
    rules, findings = [], []
    for path in binding_files():
        reader = Reader(str(path.relative_to(ROOT)), path.read_text()).read()
        rules += reader.rules
        findings += reader.findings
    gone = withdrawn()
    findings += check_numbers(rules, gone)
    findings += check_references(rules, repository_files(), gone)
    return rules, findings


def main() -> int:
    arguments = sys.argv[1:]
    if arguments not in ([], ["--json"]):
        print(__doc__, file=sys.stderr)
        return 2
    rules, findings = load()
    if arguments:
        json.dump([asdict(rule) for rule in rules], sys.stdout, indent=1, ensure_ascii=False)
        print()
        for finding in findings:
            print(finding, file=sys.stderr)
        return 1 if findings else 0
    sections = {}
    for rule in rules:
        sections.setdefault((rule.section, rule.title), []).append(rule)
    for (section, title), held in sections.items():
        print(f"{len(held):4}  {section} {title}")
    for finding in findings:
        print(finding)
    print(f"{len(rules)} rules, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
