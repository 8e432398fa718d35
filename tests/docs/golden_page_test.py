#!/usr/bin/env python3
"""golden_page.py takes the test vectors of docs/spec/03-packets.md apart, and sees planted mistakes."""

import json
import re
import struct
import unittest

import golden_mode2_page
import golden_page
import golden_pcapng

TABLES = golden_page.Tables(golden_page.FIELDS.read_text())
HEX = re.findall(r"```hex\n(.*?)```", (golden_page.ROOT / "docs/spec/03-packets.md").read_text(), re.S)
WRITE, ACK, PROBE, CLOSE = HEX


def vector(text, **fields):
    return golden_page.read_vectors(json.dumps([{"name": "one", "hex": text, "fields": fields}]))[0]


def findings(text, **fields):
    return golden_page.build([vector(text, **fields)], TABLES)[2]


class Page(unittest.TestCase):
    def test_every_byte_of_a_packet_has_one_row(self):
        for text in HEX:
            data = vector(text)["bytes"]
            rows = golden_page.Dissector(TABLES, data).read().rows
            self.assertEqual(b"".join(part for _, part, _ in rows), data)
            self.assertEqual([at for at, _, _ in rows], sorted({at for at, _, _ in rows}))

    def test_a_write_is_named_field_by_field(self):
        page = golden_page.build([vector(WRITE, op="WRITE")], TABLES)[0]
        self.assertIn("0000  14                                              version 1, type 4 DATA", page)
        self.assertIn("flags 0xa0 AR LAST", page)
        self.assertIn("0024  00 00 7f 00 12 34 56 78                         va 0x7f0012345678", page)
        self.assertIn("0030  68 65 6c 6c 6f                                  payload", page)

    def test_fields_may_be_numbers_hexadecimal_or_names_in_groups(self):
        self.assertEqual(findings(WRITE, type="DATA", op=0, cpsn="0x100", flags="AR|LAST", data={"msn": 7}), [])
        self.assertEqual(findings(ACK, blocks=[{"largest": 42, "rx_count": 3}], tlvs=[{"stream": 17, "limit": 4}]), [])
        self.assertEqual(findings(PROBE, kind="QUESTION", nstreams=1, stream=[17]), [])
        self.assertEqual(findings(CLOSE, cack=257), [])
        self.assertTrue(golden_page.agrees("00112233445566778899aabbccddeeff", 0x112233445566778899AABBCCDDEEFF, ""))
        self.assertTrue(golden_page.agrees("192.0.2.1", 0xFFFFC0000201, ""))
        self.assertFalse(golden_page.agrees("192.0.2.1", 0xFFFFC0000202, ""))

    def test_a_field_that_disagrees_with_the_bytes_is_found(self):
        self.assertIn("'msn' is 8 in the JSON and 0x7", findings(WRITE, msn=8)[0])
        self.assertTrue(findings(WRITE, flags="AR"))
        self.assertTrue(findings(WRITE, op="SEND"))

    def test_fields_that_have_no_name_of_the_tables_are_found(self):
        self.assertIn("none of its fields", findings(WRITE, nonsense=1)[0])

    def test_a_wrong_trailer_shows(self):
        page = golden_page.build([vector(CLOSE.replace("ea", "eb"), cack=257)], TABLES)[0]
        self.assertIn("CRC-32C, which is wrong", page)

    def test_a_packet_that_is_cut_anywhere_does_not_stop_the_page(self):
        for text in HEX:
            data = vector(text)["bytes"]
            for size in range(len(data)):
                rows = golden_page.Dissector(TABLES, data[:size]).read().rows
                self.assertEqual(b"".join(part for _, part, _ in rows), data[:size])

    def test_what_is_no_list_of_vectors_is_refused(self):
        with self.assertRaises(ValueError):
            golden_page.read_vectors('[{"name": "x"}]')
        with self.assertRaises(ValueError):
            golden_page.read_vectors('[{"name": "x", "hex": "0g", "fields": {}}]')


class Mistakes(unittest.TestCase):
    """Each is named with its file, its line and its vector."""

    def refused(self, read, text, *words):
        with self.assertRaises(ValueError) as caught:
            read(text)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_in_vectors(self):
        read, good = golden_page.read_vectors, golden_page.JSON.read_text()
        entries = json.loads(good)
        line = 1 + good.count("\n", 0, good.index(f'"name": "{entries[2]["name"]}"'))
        at = good.index(entries[2]["hex"])
        self.refused(read, good[:at] + "0g" + good[at + 2 :], f"golden.json, line {line}, '{entries[2]['name']}'", "'hex' is not hexadecimal")
        self.refused(read, '[\n{"name": "a", "hex": "", "fields": {}},\n{"name": "b", "fields": {}}]', "line 3, 'b': 'hex' is missing")
        self.refused(read, '[{"name": "a", "hex": 5, "fields": {}}]', "line 1, 'a': 'hex' is of the wrong type")
        self.refused(read, '[\n{"hex": "", "fields": {}}]', "line 2: 'name' is missing")
        self.refused(read, "[\n{]", "golden.json", "line 2")
        self.refused(read, "{}", "no list")
        self.refused(read, "[5]", "item 1 of the list is no object")

    def test_in_conversations(self):
        read, good = golden_mode2_page.read, json.loads(golden_page.JSON_2.read_text())
        for member in ("hex", "clear", "nonce", "pseq", "aad_bytes", "from", "type", "fields", "name"):
            talks = json.loads(json.dumps(good))
            entry = talks[0]["datagrams"][3]
            del entry[member]
            name = "" if member == "name" else f", '{entry['name']}'"
            self.refused(read, json.dumps(talks, indent=1), "golden_mode2.json, line ", f"{name}: '{member}' is missing")
        for member in ("hex", "clear", "nonce", "pseq"):
            talks = json.loads(json.dumps(good))
            entry = talks[0]["datagrams"][3]
            entry[member] = "0g"
            self.refused(read, json.dumps(talks), f"'{entry['name']}': '{member}' is not hexadecimal")
        for member in ("derived", "psk", "datagrams"):
            talks = json.loads(json.dumps(good))
            del talks[1][member]
            self.refused(read, json.dumps(talks), f"'{talks[1]['name']}': '{member}' is missing")
        talks = json.loads(json.dumps(good))
        talks[1]["datagrams"] = talks[1]["datagrams"][1:]
        self.refused(read, json.dumps(talks), "it has no INIT")


class Mode2(unittest.TestCase):
    def setUp(self):
        self.talk = golden_mode2_page.read(golden_page.JSON_2.read_text())[0]

    def findings(self):
        return golden_page.build_all([], [self.talk], TABLES)[1]

    def test_each_step_and_each_datagram_is_on_the_page(self):
        files, findings = golden_page.build_all([], [self.talk], TABLES)
        page = files[golden_page.PAGE].decode()
        self.assertEqual(findings, [])
        for text in ("i2a key ", "a2i iv ", "transcript_hash ", self.talk["derived"]["prk"], "### STREAM_OPEN",
                     "full PSEQ 0x100000000, nonce ", "payload, encrypted", "trailer: tag of AES-128-GCM"):
            self.assertIn(text, page)

    def test_a_derivation_that_does_not_follow_is_found(self):
        for change in ("prk", "init_transcript", "transcript_hash", "key_id"):
            self.setUp()
            self.talk["derived"][change] = "00" + self.talk["derived"][change][2:] + "00"
            self.assertTrue(any(change in finding for finding in self.findings()), change)
        self.setUp()
        self.talk["derived"]["i2a"]["key"] = "00" * 16
        self.assertIn("i2a is", self.findings()[0])

    def test_a_sealed_datagram_that_contradicts_itself_is_found(self):
        for name, wrong, word in (("nonce", "00" * 12, "nonce"), ("pseq", "0xffffffff", "number"),
                                  ("aad_bytes", 104, "encrypted")):
            self.setUp()
            entry = next(e for e in self.talk["datagrams"] if e["name"] == "WRITE whose number has wrapped")
            entry[name] = wrong
            self.assertTrue(any(word in finding for finding in self.findings()), name)

    def test_what_is_no_conversation_is_refused(self):
        with self.assertRaises(ValueError):
            golden_mode2_page.read('[{"name": "x"}]')


class Capture(unittest.TestCase):
    def test_headers_have_good_checksums_and_blocks_their_sizes(self):
        data = vector(WRITE)["bytes"]
        frame = golden_pcapng.frame(data)
        self.assertEqual(golden_pcapng.checksum(frame[14:34]), 0)
        pseudo = frame[26:34] + struct.pack(">BBH", 0, 17, len(frame) - 34)
        self.assertEqual(golden_pcapng.checksum(pseudo + frame[34:]), 0)
        self.assertEqual(struct.unpack(">H", frame[36:38])[0], 61440)
        self.assertEqual(frame[15], 2, "DATA is ECT(0)")
        out, at, kinds = golden_pcapng.capture([("a", data), ("bcd", data)]), 0, []
        while at < len(out):
            kind, size = struct.unpack_from("<II", out, at)
            self.assertEqual(struct.unpack_from("<I", out, at + size - 4)[0], size)
            kinds.append(kind)
            at += size
        self.assertEqual(kinds, [0x0A0D0D0A, 1, 6, 6])


if __name__ == "__main__":
    unittest.main()
