#!/usr/bin/env python3
"""The Wireshark dissector, through tshark.

Golden packets: every field that docs/spec/fields.md gives a packet must show in tshark, with the value that another reading
of the same bytes (golden_page.py) finds. Conversations: what expert information must say about gaps, retransmissions,
marks and the like, in captures that are made here. The file itself must be what tools/wireshark/generate makes.

  dissector_test.py PRINT_FIELDS [unittest options]
"""

import collections
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "docs"))
import golden_mode2_page  # noqa: E402
import golden_page  # noqa: E402
import golden_pcapng  # noqa: E402

LUA = ROOT / "tools" / "wireshark" / "mroce.lua"
PRINT_FIELDS = ""


def tshark(capture, *options):
    run = subprocess.run(
        ["tshark", "-X", f"lua_script:{LUA}", "-o", "mroce.verify:TRUE", "-r", str(capture), *options],
        capture_output=True, text=True, timeout=90, check=False)
    if run.returncode != 0 or "lua" in run.stderr.lower().replace("lua_script", "").replace("running lua", ""):
        raise AssertionError(f"tshark failed:\n{run.stderr}")
    return run.stdout


def leaves(tree, found):
    """All values of a frame by the full names of their fields."""
    for name, value in tree.items():
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                leaves(each, found)
            elif name.startswith("mroce."):
                found[name].append(each)
    return found


def frames(capture):
    text = tshark(capture, "-T", "json", "--no-duplicate-keys", "-J", "mroce")
    return [leaves(each["_source"]["layers"], collections.defaultdict(list)) for each in json.loads(text)]


def number(text):
    """Integers as tshark prints them; of bytes (aa:bb…) the integer that they are, big-endian."""
    if ":" in text:
        return int(text.replace(":", ""), 16)
    if text in ("True", "False"):
        return int(text == "True")
    try:
        return int(text, 0)
    except ValueError:
        return None  # a word of the dissector's own


def trailer(body):
    return body + struct.pack(">I", golden_page.crc32c(body))


def common(kind, pseq, path=0, flags=0, dcid=7, epoch=0):
    return struct.pack(">BBBBIII", 0x10 | kind, flags, path, epoch, dcid, pseq, 0)


def write(pseq, cpsn, payload=b"hello", **header):
    head = common(4, pseq, **header) + struct.pack(">IHBBIII", cpsn, 16, 0, 0, 0, 0, len(payload))
    return trailer(head + struct.pack(">QI", 0x1000, 0xABCD) + payload)


def block(path, largest, ce=0):
    return struct.pack(">BBHI", path, 0, 0, largest) + struct.pack(">QQQQ", 1, 0, 0, 0) + struct.pack(">IIIHH", 1, ce, 0, 0, 0)


def ack(cack, blocks=(), tlvs=b"", penalty=0, dcid=9):
    body = common(5, 1, dcid=dcid) + struct.pack(">IBBHI", cack, len(blocks), penalty, 0, cack + 100)
    return trailer(body + b"".join(blocks) + tlvs)


def init(kind, scid, dcid, flags=0, mode=1):
    body = common(kind, 0, dcid=dcid) + struct.pack(">IBBBBI", 0x6D524F43, 1, 1, mode, flags, scid) + bytes(32)
    body += struct.pack(">QHHBBHIIIII", 5, 61440, 4096, 4, 1, 100, 16384, 0, 0, 1 << 20, 0)
    body += bytes(10) + b"\xff\xff\x0a\x00\x00\x01" + struct.pack(">II", 120, 100)
    return trailer(body + bytes(1200 - 4 - len(body)))


def marked(frame):
    """The same Ethernet frame with CE in its IP header (the checksum of the header is not looked at)."""
    return frame[:15] + bytes([frame[15] | 3]) + frame[16:]


class Conversation(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def show(self, *datagrams):
        path = pathlib.Path(self.folder.name) / "capture.pcapng"
        path.write_bytes(golden_pcapng.capture([(str(i), each) for i, each in enumerate(datagrams)]))
        return frames(path)

    def experts(self, *datagrams):
        """The expert items of each frame, without the dots of their names."""
        return [{name.removeprefix("mroce.expert.") for name in found if name.startswith("mroce.expert.")}
                for found in self.show(*datagrams)]

    def test_numbers_in_order_raise_nothing(self):
        self.assertEqual(self.experts(write(1, 1), write(2, 2), write(3, 3)), [set(), set(), set()])

    def test_a_gap_and_what_fills_it_late_are_named(self):
        shown = self.show(write(1, 1), write(4, 4), write(2, 2))
        self.assertEqual(shown[1]["mroce.missing"], ["2"])
        self.assertIn("mroce.expert.gap", shown[1])
        self.assertIn("mroce.expert.late", shown[2])

    def test_numbers_wrap_at_32_bits(self):
        self.assertEqual(self.experts(write(2**32 - 1, 1), write(0, 2), write(2, 3)), [set(), set(), {"gap"}])

    def test_each_path_and_each_direction_has_numbers_of_its_own(self):
        self.assertEqual(self.experts(write(1, 1), write(1, 2, path=1), write(1, 1, dcid=8), write(2, 3)), [set()] * 4)

    def test_a_retransmission_names_the_frame_that_it_repeats(self):
        shown = self.show(write(1, 1), write(2, 2), write(3, 1, flags=0x40))
        self.assertEqual(shown[2]["mroce.first_frame"], ["1"])
        self.assertIn("mroce.expert.retransmission", shown[2])

    def test_a_new_epoch_is_another_way_and_no_gap(self):
        shown = self.experts(write(1, 1), write(2, 2, epoch=1))
        self.assertEqual(shown[1], {"epoch"})

    def test_marks_are_seen_on_data_and_in_what_the_receiver_counts(self):
        shown = self.show(ack(1, [block(0, 1, ce=3)]), ack(1, [block(0, 2, ce=3)]), ack(1, [block(0, 3, ce=5)]))
        self.assertEqual([each["mroce.path_block.newly_marked"] for each in shown], [["3"], [], ["2"]])

    def test_a_mark_in_the_ip_header_is_named(self):
        path = pathlib.Path(self.folder.name) / "marked.pcapng"
        data = golden_pcapng.capture([("one", write(1, 1))])
        frame = golden_pcapng.frame(write(1, 1))
        self.assertEqual(data.count(frame), 1)
        path.write_bytes(data.replace(frame, marked(frame)))
        self.assertIn("mroce.expert.ce", frames(path)[0])

    def test_refusals_are_named(self):
        nak = bytes([1, 12]) + struct.pack(">IB3xI", 77, 4, 0)
        stop = common(4, 1) + struct.pack(">IHBBIII", 1, 16, 20, 0, 3, 0, 32)
        stop += struct.pack(">IIIIIBBBB8x", 16, 17, 0, 1, 0, 0, 0, 5, 4)
        shown = self.experts(ack(1, tlvs=nak), trailer(stop), ack(1, penalty=9), trailer(common(9, 0) + bytes(16)))
        self.assertEqual(shown, [{"nak"}, {"refused"}, {"penalty"}, {"reset"}])

    def test_a_handshake_names_the_connection_and_both_directions(self):
        shown = self.show(init(0, 7, 0), init(1, 9, 7, mode=0), write(1, 1, dcid=9), write(1, 1, dcid=7), write(1, 1, dcid=5))
        self.assertEqual([each["mroce.connection"] for each in shown], [["0"]] * 4 + [["1"]])
        self.assertEqual([[number(v) for v in each["mroce.to_acceptor"]] for each in shown], [[1], [0], [1], [0], []])

    def test_damage_is_named(self):
        good = write(1, 1)
        for shown in self.experts(*[good[:cut] for cut in range(20, len(good))]):
            self.assertIn("crc", shown)
        self.assertIn("malformed", self.experts(trailer(good[:30]))[0])
        self.assertIn("malformed", self.experts(trailer(ack(1, [block(0, 1)])[:60]))[0])

    def test_bytes_at_random_break_nothing(self):
        state = 1
        datagrams = []
        for _ in range(300):
            body = bytearray()
            for _ in range(20 + state % 90):
                state = state * 6364136223846793005 + 1442695040888963407 & 2**64 - 1
                body.append(state >> 33 & 255)
            body[0] = 0x10 | body[0] & 15
            datagrams.append(bytes(body))
        self.assertEqual(len(self.show(*datagrams)), 300)


# The dissector takes the cookie of a RETRY for a list of TLVs, which these packets show.
COOKIES_AS_TLVS = {"retry", "retry with a TLV", "RETRY"}


class Golden(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.vectors = golden_page.read_vectors(golden_page.JSON.read_text())
        cls.tables = golden_page.Tables(golden_page.FIELDS.read_text())
        cls.shown = frames(golden_page.PCAPNG)

    def test_every_field_is_named_with_its_value(self):
        self.assertEqual(len(self.vectors), len(self.shown))
        for vector, shown in zip(self.vectors, self.shown):
            found = golden_page.Dissector(self.tables, vector["bytes"]).read().found
            by_name = collections.defaultdict(list)
            for name, values in shown.items():
                by_name[name.rsplit(".", 1)[1]] += [number(value) for value in values]
            for name, values in found.items():
                if name == "zero" or (name == "type" and vector["name"] in COOKIES_AS_TLVS):
                    continue
                with self.subTest(packet=vector["name"], field=name):
                    for value, _ in values:
                        self.assertIn(value, by_name[name])

    def test_no_golden_packet_is_malformed(self):
        for vector, shown in zip(self.vectors, self.shown):
            with self.subTest(packet=vector["name"]):
                self.assertEqual("mroce.expert.malformed" in shown, vector["name"] in COOKIES_AS_TLVS)
                self.assertEqual(shown["mroce.crc.status"], ["good"])


class GoldenMode2(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        talks = golden_mode2_page.read(golden_page.JSON_2.read_text())
        cls.entries = [entry for talk in talks for entry in talk["datagrams"]]
        cls.tables = golden_page.Tables(golden_page.FIELDS.read_text())
        cls.shown = frames(golden_page.PCAPNG_2)

    def test_what_is_not_encrypted_is_named_with_its_value(self):
        self.assertEqual(len(self.entries), len(self.shown))
        for entry, shown in zip(self.entries, self.shown):
            raw, size = bytes.fromhex(entry["hex"]), 16 if "keys" in entry else 4
            clear = raw[: entry.get("aad_bytes", len(raw) - 4)]
            found = golden_page.Dissector(self.tables, clear + raw[-size:], size).read().found
            by_name = collections.defaultdict(list)
            for name, values in shown.items():
                by_name[name.rsplit(".", 1)[1]] += [number(value) for value in values]
            for name, values in found.items():
                with self.subTest(packet=entry["name"], field=name):
                    for value, _ in values if name != "zero" else []:
                        self.assertIn(value, by_name[name])

    def test_only_what_has_a_crc_is_judged_by_it(self):
        for entry, shown in zip(self.entries, self.shown):
            with self.subTest(packet=entry["name"]):
                self.assertEqual("mroce.expert.malformed" in shown, entry["name"] in COOKIES_AS_TLVS)
                self.assertEqual(shown["mroce.crc.status"], [] if "keys" in entry else ["good"])


class File(unittest.TestCase):
    def test_it_is_what_the_field_table_and_the_logic_give(self):
        with tempfile.NamedTemporaryFile() as made:
            subprocess.run([str(ROOT / "tools/wireshark/generate"), PRINT_FIELDS, made.name], check=True)
            self.assertEqual(pathlib.Path(made.name).read_text(), LUA.read_text(), "run tools/wireshark/generate")


if __name__ == "__main__":
    PRINT_FIELDS = sys.argv.pop(1)
    if shutil.which("tshark") is None:
        sys.exit("tshark is missing: apt-get install tshark")
    unittest.main()
