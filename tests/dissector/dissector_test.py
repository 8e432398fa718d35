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
            elif name.startswith("mroce.") or name == "_ws.expert.message":
                found[name].append(each)
    return found


def frames(capture):
    text = tshark(capture, "-T", "json", "--no-duplicate-keys", "-J", "mroce")
    return [leaves(each["_source"]["layers"], collections.defaultdict(list)) for each in json.loads(text)]


def number(text):
    """Integers as tshark prints them; of bytes (aa:bb…) the integer that they are, big-endian."""
    if text in ("True", "False"):
        return int(text == "True")
    try:
        return int(text.replace(":", ""), 16) if ":" in text else int(text, 0)
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


def init(kind, scid, dcid, flags=0, mode=1, ports=1, prefix=120, tlvs=b"", size=1200, ext=0):
    body = common(kind, 0, dcid=dcid, flags=ext) + struct.pack(">IBBBBI", 0x6D524F43, 1, 1, mode, flags, scid) + bytes(32)
    body += struct.pack(">QHHBBHIIIII", 5, 61440, 4096, 4, ports, 100, 16384, 0, 0, 1 << 20, 0)
    body += bytes(10) + b"\xff\xff\x0a\x00\x00\x01" + struct.pack(">II", prefix, 100) + tlvs
    return trailer(body + bytes(size - 4 - len(body)))


def data(op, extension=b"", payload=b"", offset=0, length=None, flags=0, tlvs=b""):
    length = len(payload) if length is None else length
    head = common(4, 1, flags=flags) + struct.pack(">IHBBIII", 1, 16, op, 0, 0, offset, length)
    return trailer(head + extension + tlvs + payload)


def control(qpn=16, timer=0, reason=0, code=0, more=b""):
    return data(16, payload=struct.pack(">IIIIIBBBB8x", qpn, 17, 0, 1, 0, 0, timer, reason, code) + more, length=32)


def nak(code, size=12):
    return bytes([1, size]) + (struct.pack(">IB3xI", 77, code, 0) + bytes(size))[:size]


def plain(kind, body, **header):
    return trailer(common(kind, 0, **header) + body)


VA = struct.pack(">QI", 0x1000, 0xABCD)
END = bytes(2)
EXT = 4
# What docs/spec/03-packets.md calls malformed, and a word of what must be said of it.
MALFORMED = {
    "path 64": (write(1, 1, path=64), "path 64"),
    "type 13": (plain(13, bytes(8)), "unknown type 13"),
    "type UD_DATAGRAM": (plain(10, bytes(8)), "reserved"),
    "opcode 200": (data(200), "opcode 200"),
    "DATA beyond its length": (data(0, VA, b"hello", offset=1, length=5), "exceed length 5"),
    "DATA beyond 32 bits": (data(0, VA, b"hello", offset=2**32 - 1, length=2**32 - 1), "exceed"),
    "READ_REQ with payload": (data(5, VA + bytes(4), b"x"), "READ_REQ with 1 bytes"),
    "VOID with payload": (data(10, b"", b"xy"), "VOID with 2 bytes"),
    "COMPARE_SWAP with payload": (data(7, bytes(32), b"x"), "COMPARE_SWAP with"),
    "unknown status": (data(6, bytes([0, 0, 0, 1, 99, 0, 0, 0])), "status 99"),
    "short stream control": (data(16, payload=bytes(31), length=32), "31 bytes"),
    "long stream control": (control(more=b"x"), "33 bytes"),
    "a QPN of 25 bits": (control(qpn=1 << 24), "src_qpn"),
    "an RNR timer of 32": (control(timer=32), "timer code 32"),
    "reason 6": (control(reason=6), "reason 6"),
    "code 99": (control(code=99), "code 99"),
    "DATA with a list without END": (data(0, VA, tlvs=bytes([200, 1, 5]), flags=EXT), "no END"),
    "DATA with END of a value": (data(0, VA, tlvs=bytes([0, 1, 5]), flags=EXT), "END with a value"),
    "DATA with a TLV cut off": (data(0, VA, tlvs=bytes([200, 9, 5]), flags=EXT), "cut off"),
    "five path blocks": (ack(1, [block(0, 1)] * 5), "5 path blocks"),
    "block of path 64": (ack(1, [block(64, 1)]), "path 64"),
    "host penalty 128": (ack(1, penalty=128), "penalty 128"),
    "NAK of code 0": (ack(1, tlvs=nak(0)), "NAK of code 0"),
    "NAK of code 99": (ack(1, tlvs=nak(99)), "NAK of code 99"),
    "NAK of 11 bytes": (ack(1, tlvs=nak(3, 11)), "NAK with 11 bytes"),
    "ACK with half a TLV": (ack(1, tlvs=b"\1"), "cut off"),
    "ACK with 17 NAKs": (ack(1, tlvs=nak(3) * 17), "more than 16 of NAK"),
    "a bad NAK behind END": (ack(1, tlvs=END + nak(0)), "NAK of code 0"),
    "two PORT_STATUS": (ack(1, tlvs=(bytes([3, 8]) + bytes(8)) * 2), "more than 1 of PORT_STATUS"),
    "PROBE with 65 streams": (plain(6, bytes(8) + bytes([65, 0, 0, 0]) + bytes(130)), "65 streams"),
    "PROBE cut off": (plain(6, bytes(8) + bytes([2, 0, 0, 0]) + bytes(3)), "stream number is cut off"),
    "PROBE_ACK with more": (plain(7, bytes(9)), "1 bytes behind"),
    "VERSION of none": (plain(3, bytes([0, 0, 0, 0])), "0 versions"),
    "VERSION of 17": (plain(3, bytes([17, 0, 0, 0]) + bytes(17)), "17 versions"),
    "VERSION cut off": (plain(3, bytes([3, 0, 0, 0, 1, 2])), "versions is cut off"),
    "CLOSE with more": (plain(8, bytes(8) + nak(3)), "14 bytes behind"),
    "CLOSE with half a TLV": (plain(8, bytes(8) + bytes([1, 12, 0]), flags=EXT), "TLV is cut off"),
    "RESET with more": (plain(9, bytes(17)), "1 bytes behind"),
    "RETRY with more": (plain(2, bytes(8) + bytes([1, 0, 0, 0, 7, 8, 9])), "2 bytes behind"),
    "RETRY without cookie": (plain(2, bytes(12)), "a cookie of 0 bytes"),
    "RETRY of 65 bytes": (plain(2, bytes(8) + bytes([65, 0, 0, 0]) + bytes(65)), "a cookie of 65 bytes"),
    "RETRY cut off": (plain(2, bytes(8) + bytes([9, 0, 0, 0]) + bytes(8)), "cookie is cut off"),
    "short INIT": (init(0, 7, 0, size=1199), "less than 1200"),
    "INIT without ports": (init(0, 7, 0, ports=0), "0 ports"),
    "INIT with 9 ports": (init(0, 7, 0, ports=9), "9 ports"),
    "INIT cut off in its ports": (init(0, 7, 0, ports=2, size=130), "cut off"),
    "a prefix of 129": (init(0, 7, 0, prefix=129), "129 bits"),
    "INIT without END": (init(0, 7, 0, tlvs=bytes([200, 254, *range(254)]) * 4 + bytes([200, 50, *range(50)]), ext=EXT), "no END"),
    "KEY_SHARE of 39 bytes": (init(0, 7, 0, tlvs=bytes([7, 39]) + bytes(39), ext=EXT), "KEY_SHARE with 39 bytes"),
    "COOKIE of none": (init(0, 7, 0, tlvs=bytes([8, 0]), ext=EXT), "COOKIE of 0"),
    "two COOKIEs": (init(0, 7, 0, tlvs=bytes([8, 1, 1]) * 2, ext=EXT), "more than 1 of COOKIE"),
}


def marked(frame):
    """The same Ethernet frame with CE in its IP header (the checksum of the header is not looked at)."""
    return frame[:15] + bytes([frame[15] | 3]) + frame[16:]


class Conversation(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def show(self, *datagrams):
        return frames(self.capture(*datagrams))

    def capture(self, *datagrams):
        path = pathlib.Path(self.folder.name) / "capture.pcapng"
        path.write_bytes(golden_pcapng.capture([(str(i), each) for i, each in enumerate(datagrams)]))
        return path

    def show_cut(self, cases):
        """The same for pairs of a datagram and how many of its bytes were captured."""
        path = pathlib.Path(self.folder.name) / "cut.pcap"
        out = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
        for datagram, kept in cases:
            frame = golden_pcapng.frame(datagram)
            out += struct.pack("<IIII", 0, 0, len(frame) - len(datagram) + kept, len(frame)) + frame[: len(frame) - len(datagram) + kept]
        path.write_bytes(out)
        return frames(path)

    def text(self, *datagrams):
        return tshark(self.capture(*datagrams), "-V", "-O", "mroce")

    def info(self, *datagrams):
        return tshark(self.capture(*datagrams), "-T", "fields", "-e", "_ws.col.Info").splitlines()

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

    def test_what_the_specification_calls_malformed_is_named(self):
        shown = self.show(*[datagram for datagram, _ in MALFORMED.values()])
        for (name, (_, text)), found in zip(MALFORMED.items(), shown, strict=True):
            with self.subTest(packet=name):
                self.assertIn("mroce.expert.malformed", found)
                self.assertIn(text, " ".join(found["_ws.expert.message"]))
                self.assertEqual(found["mroce.crc.status"], ["good"])

    def test_what_only_looks_so_is_not_malformed(self):
        fine = [
            ack(1, [block(63, 1)], penalty=127), ack(1, tlvs=nak(3) * 16), ack(1, tlvs=END + nak(3)),
            data(0, VA, b"hello", offset=5, length=10), data(5, VA + bytes(4), length=9), control(timer=31, reason=5, code=10),
            plain(3, bytes([16, 0, 0, 0]) + bytes(16)), plain(6, bytes(8) + bytes([64, 0, 0, 0]) + bytes(128)),
            plain(12, bytes(9)), plain(8, bytes(8) + nak(0), flags=EXT), plain(2, bytes(8) + bytes([1, 0, 0, 0, 7])),
            init(0, 7, 0, tlvs=bytes([8, 64]) + bytes(64) + END, ext=EXT),
        ]
        for found in self.show(*fine):
            self.assertNotIn("mroce.expert.malformed", found, found["_ws.expert.message"])

    def test_bytes_behind_a_body_are_no_tlvs_without_ext(self):
        close, reset = self.show(MALFORMED["CLOSE with more"][0], MALFORMED["RESET with more"][0])
        self.assertEqual(close["mroce.tlv.type"], [])
        self.assertEqual(number(close["mroce.rest"][0]), int.from_bytes(nak(3), "big"))
        self.assertEqual(reset["mroce.rest"], ["00"])

    def test_a_cookie_is_one(self):
        cookie = bytes([1, 200, 3])
        found = self.show(plain(2, bytes(8) + bytes([3, 0, 0, 0]) + cookie), plain(2, bytes(8) + bytes([9, 0, 0, 0]) + cookie))
        self.assertEqual([each["mroce.retry.cookie"] for each in found], [["01:c8:03"]] * 2)
        self.assertEqual([each["mroce.tlv.type"] for each in found], [[], []])

    def test_a_sealed_end_is_not_called_malformed_when_the_handshake_is_missing(self):
        read_req = data(5, VA + bytes(4))[:-4] + bytes(range(1, 17))  # a tag instead of the CRC
        self.assertEqual(self.experts(read_req), [{"crc"}])

    def test_codes_are_shown_decoded(self):
        coded = bytearray(write(1, 1))[:-4]
        coded[23] = 0x24
        blocks = [bytearray(block(path, 1)) for path in range(3)]
        for each, rate, delay in zip(blocks, (0xA4A8, 0, 0xFFFF), (31, 0, 65535)):
            each[2:4], each[52:54] = struct.pack(">H", rate), struct.pack(">H", delay)
        found = self.show(trailer(bytes(coded)), ack(1, [bytes(each) for each in blocks]))
        self.assertEqual(found[0]["mroce.data.backlog"], ["36"])
        self.assertEqual(found[0]["mroce.data.backlog.packets"], ["96"])
        self.assertEqual([float(each) for each in found[1]["mroce.path_block.rate.bytes_per_s"]], [1249902592])
        self.assertEqual(found[1]["mroce.path_block.ack_delay.ns"], ["1984", "0", "4194240"])
        text = self.text(trailer(bytes(coded)), ack(1, [bytes(each) for each in blocks]))
        for words in ("(96 packets)", "1249902592 bytes/s", "(none)", "(unlimited)", "1.984 us"):
            self.assertIn(words, text)

    def test_backlogs_decode_as_the_specification_says(self):
        codes = [0, 15, 16, 17, 0x24, 255]
        datagrams = []
        for code in codes:
            coded = bytearray(write(1 + len(datagrams), 1 + len(datagrams)))[:-4]
            coded[23] = code
            datagrams.append(trailer(bytes(coded)))
        wanted = [code if code < 16 else (8 + code % 8) * 2 ** (code // 8 - 1) for code in codes]
        self.assertEqual([each["mroce.data.backlog.packets"] for each in self.show(*datagrams)], [[str(n)] for n in wanted])

    def test_the_info_column_says_what_matters(self):
        token = bytes(range(0x11, 0x19))
        lines = self.info(plain(3, bytes([2, 0, 0, 0, 1, 7])), plain(7, token, path=3), plain(6, token + bytes([0, 1, 0, 0])),
                          plain(8, struct.pack(">II", 5, 0)), plain(2, bytes(8) + bytes([1, 0, 0, 0, 7])))
        self.assertEqual(lines, ["VERSION versions 1,7", "PROBE_ACK path 3 token 0x1112131415161718",
                                 "PROBE path 0 challenge token 0x1112131415161718", "CLOSE cack 5 reason 0",
                                 "RETRY cookie of 1 bytes"])

    def test_another_version_is_not_taken_for_this_one(self):
        other = bytes([0x25]) + ack(1, [block(0, 5)])[1:]
        found, = self.show(other)
        self.assertEqual((found["mroce.version"], found["mroce.pseq"], found["mroce.ack.cack"]), (["2"], [], []))
        self.assertIn("mroce.expert.version", found)
        self.assertEqual(self.info(other), ["version 2, not dissected"])

    def test_a_datagram_that_the_capture_cuts_is_dissected_as_far_as_it_goes(self):
        whole = [write(1, 1), ack(1, [block(0, 1)], tlvs=nak(3)), init(0, 7, 0), plain(2, bytes(8) + bytes([9, 0, 0, 0]) + bytes(9)),
                 plain(6, bytes(8) + bytes([2, 0, 0, 0]) + bytes(4)), control(), plain(3, bytes([2, 0, 0, 0, 1, 2]))]
        cases = [(each, kept) for each in whole for kept in range(1, min(len(each), 130))]
        for (each, kept), found in zip(cases, self.show_cut(cases), strict=True):
            with self.subTest(packet=each[:1], kept=kept):
                self.assertIn("mroce.expert.cut", found)
                self.assertNotIn("mroce.expert.malformed", found, found["_ws.expert.message"])
                self.assertIn(f"only {kept} of {len(each)} bytes", " ".join(found["_ws.expert.message"]))
                self.assertEqual(found["mroce.pseq"] != [], kept >= 12)
                self.assertEqual(found["mroce.crc"], [])
        self.assertEqual(self.show_cut([(write(1, 1), 50)])[0]["mroce.payload"], ["68:65"])

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
        self.assertEqual(len(self.show_cut([(each, 1 + len(each) * 2 // 3) for each in datagrams])), 300)

    def test_no_single_damage_breaks_anything(self):
        all_damaged = []
        for bits in (0x01, 0x80, 0xFF):
            for datagram, _ in MALFORMED.values():
                damaged = [datagram[:at] + bytes([datagram[at] ^ bits]) + datagram[at + 1 :] for at in range(min(len(datagram), 130))]
                all_damaged += damaged[::7]
        self.assertEqual(len(self.show(*all_damaged)), len(all_damaged))


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
                if name == "zero":
                    continue
                with self.subTest(packet=vector["name"], field=name):
                    for value, _ in values:
                        self.assertIn(value, by_name[name])

    def test_no_golden_packet_is_malformed(self):
        for vector, shown in zip(self.vectors, self.shown):
            with self.subTest(packet=vector["name"]):
                self.assertNotIn("mroce.expert.malformed", shown, shown["_ws.expert.message"])
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

    def test_sealed_payload_is_marked_as_such_and_nothing_else(self):
        for entry, shown in zip(self.entries, self.shown):
            raw = bytes.fromhex(entry["hex"])
            sealed = raw[entry["aad_bytes"] : -16] if "keys" in entry else b""
            with self.subTest(packet=entry["name"]):
                self.assertEqual(shown["mroce.sealed"], [sealed.hex(":")] if sealed else [])
                self.assertEqual(shown["mroce.payload"], [])
                self.assertEqual(shown["mroce.tag"], [raw[-16:].hex(":")] if "keys" in entry else [])
                self.assertEqual(shown["mroce.stream_control.src_qpn"], [])

    def test_only_what_has_a_crc_is_judged_by_it(self):
        for entry, shown in zip(self.entries, self.shown):
            with self.subTest(packet=entry["name"]):
                self.assertNotIn("mroce.expert.malformed", shown, shown["_ws.expert.message"])
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
