"""The codec against the vectors of §3.15, against itself, and against damage."""

import random
import re
import unittest
from pathlib import Path

from pyref import golden
from pyref.codec import decode, encode
from pyref.codepoints import MAGIC, Drop, Flag, Opcode, PacketType
from pyref.crc32c import crc32c, seal
from pyref.packets import Ack, Close, CreditTlv, Data, Datagram, Header, Init, PathBlock, Probe, RawTlv
from pyref.numbers import expand, later
from pyref.small_codings import (decode_backlog, decode_rate, encode_ack_delay, encode_backlog, encode_rate)

ROOT = Path(__file__).resolve().parents[2]


def spec_vectors() -> list[Datagram]:
    """What the text of §3.15 says of its first four vectors."""
    return [
        Datagram(Header(PacketType.DATA, Flag.AR | Flag.LAST, 1, 0, 0x01020304, 0x2A, 0x1000),
                 Data(Opcode.WRITE, cpsn=0x100, stream=0x11, msn=7, length=5, va=0x7F0012345678, rkey=0xABCD,
                      payload=b"hello")),
        Datagram(Header(PacketType.ACK, 0, 0, 0, 0x0A0B0C0D, 3, 0x1100),
                 Ack(0x101, 0x4101, 0, [PathBlock(1, 0, 0x2A, 7, 3, 0, 0x1000, 31)],
                     credits=[CreditTlv(0x11, 1, 4)])),
        Datagram(Header(PacketType.PROBE, Flag.AR, 2, 0, 0x0A0B0C0D, 4, 0x1100),
                 Probe(0x1122334455667788, 0, [0x11])),
        Datagram(Header(PacketType.CLOSE, 0, 0, 0, 0x0A0B0C0D, 9, 0x1100), Close(0x101, 0)),
    ]


class Vectors(unittest.TestCase):
    def test_the_vectors_of_the_specification_come_out_exactly(self) -> None:
        text = (ROOT / "docs/spec/03-packets.md").read_text()
        vectors = [bytes.fromhex(block) for block in re.findall(r"```hex\n(.*?)```", text, re.S)]
        self.assertGreaterEqual(len(vectors), 4)
        for raw, datagram in zip(vectors, spec_vectors()):
            self.assertEqual(encode(datagram).hex(), raw.hex())
            self.assertEqual(decode(raw), datagram)
        for raw in vectors:
            self.assertEqual(encode(decode(raw)).hex(), raw.hex())

    def test_the_crc_has_its_check_value(self) -> None:
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)

    def test_the_golden_file_is_what_the_generator_writes(self) -> None:
        self.assertEqual((ROOT / "tests/data/wire/golden.json").read_text(), golden.text())

    def test_every_golden_vector_decodes_to_what_was_encoded(self) -> None:
        for name, datagram in golden.vectors():
            with self.subTest(name):
                self.assertEqual(decode(encode(datagram)), datagram)


class SmallCodings(unittest.TestCase):
    def test_rates_are_coded_as_in_the_examples(self) -> None:
        self.assertEqual(encode_rate(1_250_000_000), 0xA4A8)
        self.assertEqual(decode_rate(0xA4A8), 1_249_902_592)
        self.assertEqual([encode_rate(0), encode_rate(2047), encode_rate(None)], [0, 2047, 0xFFFF])
        self.assertEqual([encode_rate(2047 << 31), encode_rate(1 << 60)], [0xFFFE, 0xFFFE])
        self.assertIsNone(decode_rate(0xFFFF))

    def test_rates_lose_at_most_one_part_in_1024(self) -> None:
        source = random.Random(1)
        for _ in range(2000):
            rate = source.randrange(1, 2046 << 31)
            decoded = decode_rate(encode_rate(rate))
            self.assertTrue(rate - rate / 1024 <= decoded <= rate)

    def test_backlogs_take_the_largest_code_that_does_not_exceed_them(self) -> None:
        self.assertEqual([encode_backlog(17), encode_backlog(100), decode_backlog(0x24)], [0x10, 0x24, 96])
        values = [decode_backlog(code) for code in range(256)]
        self.assertEqual(values, sorted(set(values)))
        for packets in [*range(2000), 1 << 20, 1 << 40]:
            self.assertEqual(encode_backlog(packets), max(c for c in range(256) if values[c] <= packets))

    def test_the_ack_delay_is_capped(self) -> None:
        self.assertEqual([encode_ack_delay(1999), encode_ack_delay(10**9)], [31, 65535])

    def test_numbers_expand_to_the_nearest(self) -> None:
        for expected in (0, 5, 2**31, 2**32 - 1, 2**32, 7 * 2**32 + 3):
            for distance in (-2**31 + 1, -65536, -1, 0, 1, 65536, 2**31 - 1):
                if expected + distance >= 0:
                    self.assertEqual(expand((expected + distance) & 0xFFFFFFFF, expected), expected + distance)

    def test_serial_comparison_wraps(self) -> None:
        self.assertTrue(later(1, 0xFFFFFFFF))
        self.assertFalse(later(0xFFFFFFFF, 1) or later(5, 5))


class Arrival(unittest.TestCase):
    def dropped(self, raw: bytes, counter: str) -> None:
        with self.assertRaises(Drop) as caught:
            decode(raw)
        self.assertEqual(caught.exception.counter, counter)

    def data(self, body: Data, flags: int = 0) -> bytes:
        return encode(Datagram(Header(PacketType.DATA, flags, dcid=1), body))

    def test_the_checks_of_the_frame_come_in_order(self) -> None:
        good = encode(spec_vectors()[0])
        self.dropped(good[:19], "drop_truncated")
        self.dropped(b"\x24" + good[1:], "drop_version")
        self.dropped(good[:-1] + b"\0", "drop_crc")
        self.dropped(seal(bytes((0x10,)) + bytes(1180)), "drop_truncated")
        self.dropped(seal(good[:2] + b"\x40" + good[3:-4]), "drop_path")
        for kind in (10, 11, 13, 14, 15):
            self.dropped(seal(bytes((0x10 | kind,)) + good[1:-4]), "drop_type")

    def test_malformed_data_is_dropped(self) -> None:
        good = self.data(Data(Opcode.WRITE, length=4, payload=b"abcd"))[:-4]
        self.dropped(seal(good[:47]), "drop_malformed")
        self.dropped(self.data(Data(Opcode.SEND, length=3, payload=b"abcd")), "drop_malformed")
        self.dropped(self.data(Data(Opcode.SEND, offset=0xFFFFFFFF, length=4, payload=b"a")), "drop_malformed")
        self.dropped(self.data(Data(Opcode.READ_REQ, length=8, payload=b"a")), "drop_malformed")
        self.dropped(self.data(Data(Opcode.VOID, payload=b"a")), "drop_malformed")
        self.dropped(self.data(Data(Opcode.STREAM_OPEN, length=32, payload=bytes(31))), "drop_malformed")
        self.dropped(self.data(Data(Opcode.STREAM_OPEN, length=32, payload=b"\1" + bytes(31))), "drop_malformed")
        self.dropped(self.data(Data(Opcode.READ_RESP, status=11)), "drop_malformed")
        self.dropped(self.data(Data(11)), "drop_malformed")

    def test_tlv_lists_of_data_must_end(self) -> None:
        skipped = Data(Opcode.VOID, tlvs=[RawTlv(77, b"abc"), RawTlv(200), RawTlv(1, b"?")])
        self.assertEqual(decode(self.data(skipped, Flag.EXT)).body, skipped)
        self.dropped(seal(self.data(skipped, Flag.EXT)[:-6]), "drop_malformed")
        self.dropped(seal(self.data(Data(Opcode.VOID), Flag.EXT)[:-5] + b"\1x"), "drop_malformed")

    def test_malformed_acks_are_dropped(self) -> None:
        head = encode(Datagram(Header(PacketType.ACK, dcid=1), Ack()))[:-4]
        for tail in (b"\1", b"\1\5abcde", b"\3\x08" + bytes(8) + b"\3\x08" + bytes(8), b"\x06\2\0\1" * 17,
                     b"\1\x0c" + bytes(12), b"\1\x0c\0\0\0\0\x0b" + bytes(7)):
            self.dropped(seal(head + tail), "drop_malformed")
        self.dropped(seal(head[:20] + b"\1" + head[21:]), "drop_malformed")
        self.dropped(seal(head[:21] + b"\x80" + head[22:]), "drop_malformed")

    def test_a_foreign_init_is_not_looked_at_behind_its_fields(self) -> None:
        raw = encode(Datagram(Header(PacketType.INIT), Init(magic=MAGIC ^ 1)))
        self.assertEqual(decode(raw).body.ports, [])
        self.dropped(encode(Datagram(Header(PacketType.INIT), Init(magic=MAGIC))), "drop_malformed")

    def test_random_damage_never_raises_anything_but_a_drop(self) -> None:
        source = random.Random(20240824)
        seeds = [encode(datagram) for _, datagram in golden.vectors()]
        outcomes = set()
        for _ in range(3000):
            raw = bytearray(source.choice(seeds)[:600])
            for _ in range(source.randrange(1, 6)):
                raw[source.randrange(len(raw))] = source.randrange(256)
            raw = bytes(raw[:source.randrange(len(raw) + 1)]) if source.random() < 0.3 else bytes(raw)
            try:
                decode(seal(raw[:-4]) if source.random() < 0.9 else raw)
                outcomes.add("good")
            except Drop as drop:
                outcomes.add(drop.counter)
        self.assertLessEqual({"good", "drop_malformed", "drop_crc", "drop_type", "drop_version"}, outcomes)


if __name__ == "__main__":
    unittest.main()
