"""Mode 2: golden conversations, the handshake's refusals, key phases, replay, and runs over a bad network."""

import json
import random
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from pyref import golden_mode2
from pyref.codec import decode, encode, encode_open, parse_header
from pyref.codepoints import Drop, Flag, PacketType
from pyref.identity import POLICIES, Security
from pyref.key_schedule import PhaseKeys, key_id
from pyref.packets import Datagram, Header, Init, KeyShare, Port, Probe
from pyref.pair import Pair
from pyref.protection import Replay, Sealer, Unsealer
from pyref.x25519 import public_key

ROOT = Path(__file__).resolve().parents[2]
MILLI, SECOND = 1_000_000, 1_000_000_000
REQUIRE, PREFER, OFF = (Security(POLICIES[name]) for name in ("require", "prefer", "off"))
PSK = bytes(range(32))
WITH_PSK = Security(REQUIRE.modes, PSK)


def keys(name: dict[str, str]) -> PhaseKeys:
    return PhaseKeys(*(bytes.fromhex(name[part]) for part in ("key", "iv", "next_secret")))


class Golden(unittest.TestCase):
    def setUp(self) -> None:
        self.talks = golden_mode2.conversations()

    def test_the_file_is_what_the_generator_writes(self) -> None:
        self.assertEqual((ROOT / "tests/data/wire/golden_mode2.json").read_text(), golden_mode2.text())
        self.assertEqual(json.loads(golden_mode2.text()), self.talks)

    def test_a_receiver_opens_each_datagram_in_turn_and_none_twice(self) -> None:
        for talk in self.talks:
            ends = {"i2a": Unsealer(keys(talk["derived"]["i2a"]), golden_mode2.INITIATOR_PSEQ),
                    "a2i": Unsealer(keys(talk["derived"]["a2i"]), golden_mode2.ACCEPTOR_PSEQ)}
            sealed = [entry for entry in talk["datagrams"] if "keys" in entry]
            for entry in sealed:
                raw, end = bytes.fromhex(entry["hex"]), ends[entry["keys"][:3]]
                with self.subTest(entry["name"]):
                    header = parse_header(raw)
                    for at in (1, 9, 20, len(raw) - 1):  # flags, number, body, tag
                        damaged = raw[:at] + bytes((raw[at] ^ 0x02,)) + raw[at + 1:]
                        with self.assertRaisesRegex(Drop, "drop_tag"):
                            end.open(parse_header(damaged), damaged, 0, MILLI)
                    self.assertEqual(end.open(header, raw, 0, MILLI)[:-16].hex(), entry["clear"])
                    if header.type != PacketType.DATA:
                        with self.assertRaisesRegex(Drop, "drop_replay"):
                            end.open(header, raw, 0, MILLI)


class Handshake(unittest.TestCase):
    """INITs that are made here, to an endpoint that requires mode 2."""

    def setUp(self) -> None:
        self.pair = Pair(REQUIRE)
        self.target = self.pair.ends[1]

    def init(self, **changes: Any) -> bytes:
        body = Init(magic=0x6D524F43, security=4, scid=7, endpoint_id=bytes(15) + b"e", nonce=9, listen_port=61440,
                    payload_mtu=1024, max_paths=1, cpsn_window=64, ports=self.port(), size=1200,
                    key_share=KeyShare(public_key(PSK)))
        return encode(Datagram(Header(PacketType.INIT, Flag.EXT), replace(body, **changes)))

    @staticmethod
    def port() -> list[Port]:
        return [Port(bytes(10) + b"\xff\xff\x7f\0\0\1", 104)]

    def answers(self, raw: bytes) -> list[bytes]:
        self.pair.inject(1, raw)
        return [out.data for out in self.target.take()]

    def test_what_must_be_dropped_is_counted_by_its_name(self) -> None:
        small_order = KeyShare((1).to_bytes(32, "little"))
        for changes, counter in (({"key_share": None}, "drop_malformed"), ({"key_share": small_order}, "drop_malformed"),
                                 ({"key_share": KeyShare(public_key(PSK), b"another!")}, "drop_key_id"),
                                 ({"security": 1}, "drop_security"), ({"security": 2}, "drop_security")):
            self.setUp()
            self.assertEqual(self.answers(self.init(**changes)), [], changes)
            self.assertEqual((dict(self.target.counters), self.target.connections), ({counter: 1}, {}))

    def test_the_key_id_is_that_of_the_text(self) -> None:
        self.assertEqual(key_id(None), bytes(8))
        self.assertEqual(key_id(golden_mode2.PSK).hex(), golden_mode2.conversations()[1]["derived"]["key_id"])

    def test_a_repetition_may_have_less_payload_and_a_cookie_and_nothing_else(self) -> None:
        self.answers(self.init())
        [again] = self.answers(self.init(payload_mtu=512, cookie=b"never asked for"))
        self.assertEqual(len(self.target.connections), 1)
        self.assertEqual(int.from_bytes(again[70:72], "big"), 512)
        for changes in ({"max_paths": 2}, {"key_share": KeyShare(public_key(bytes(32)))}, {"max_streams": 1}):
            self.assertEqual(len(self.answers(self.init(**changes))), 1)
        self.assertEqual(len(self.target.connections), 4)

    def test_a_repetition_is_answered_where_the_first_came_from_and_not_without_end(self) -> None:
        self.answers(self.init())
        for _ in range(5):
            self.target.on_datagram(self.init(), ("127.0.0.9", 50000), False, self.pair.now)
        self.assertEqual([out.to for out in self.target.take()], [("127.0.0.1", 61440)] * 2)  # three times 1200 bytes

    def test_an_unfinished_both_at_once_keeps_ids_and_numbers(self) -> None:
        self.pair.write(1, b"x")
        self.target.endpoint_id = b"\xff" * 16
        self.target.poll(self.pair.now)
        [init] = [decode(out.data).body for out in self.target.take()]
        [answer] = self.answers(self.init())
        header = parse_header(answer)
        self.assertEqual((header.type, header.pseq), (PacketType.INIT_ACK, 1))
        self.assertEqual((answer[24:28], answer[44:60]), (init.scid.to_bytes(4, "big"), init.reset_token))
        self.assertNotIn(init.key_share.public_key, answer)

    def test_once_the_peer_is_heard_a_repetition_is_silent_and_another_init_is_told(self) -> None:
        self.answers(self.init())
        [connection] = self.target.connections.values()
        connection.validated = True
        self.assertEqual(self.answers(self.init()), [])
        [answer] = self.answers(self.init(max_paths=2))
        self.assertEqual(decode(answer).body.flags, 1)  # EXISTS has a CRC in every mode

    def test_many_that_are_not_validated_are_asked_for_a_cookie(self) -> None:
        for scid in range(1, 66):
            self.answers(self.init(scid=scid, endpoint_id=bytes(12) + scid.to_bytes(4, "big")))
        self.assertEqual(len(self.target.connections), 65)
        [retry] = self.answers(self.init())
        body = decode(retry).body
        self.assertEqual((len(retry), body.nonce, len(self.target.connections)), (52, 9, 65))
        self.assertEqual(decode(self.answers(self.init(cookie=body.cookie, nonce=8))[0]).header.type, PacketType.RETRY)
        altered = bytes((body.cookie[0] ^ 1,)) + body.cookie[1:]
        for changes in ({"cookie": altered}, {"cookie": body.cookie[:-1]}, {"listen_port": 61441}, {"scid": 8}):
            [again] = self.answers(self.init(**{"cookie": body.cookie, **changes}))
            self.assertEqual(decode(again).header.type, PacketType.RETRY, changes)
        self.target.on_datagram(self.init(cookie=body.cookie), ("127.0.0.9", 50000), False, self.pair.now)
        self.assertEqual(decode(self.target.take()[0].data).header.type, PacketType.RETRY)
        self.assertEqual(parse_header(self.answers(self.init(cookie=body.cookie))[0]).type, PacketType.INIT_ACK)
        self.pair.now += 9 * SECOND
        [late] = self.answers(self.init(endpoint_id=bytes(16), cookie=body.cookie))
        self.assertEqual(decode(late).header.type, PacketType.RETRY)


class Initiating(unittest.TestCase):
    def connect(self, pair: Pair) -> None:
        pair.write(0, b"hello")
        pair.run(300 * MILLI)

    def test_the_policies_meet(self) -> None:
        for ours, theirs, mode in ((REQUIRE, REQUIRE, 2), (PREFER, REQUIRE, 2), (REQUIRE, PREFER, 2), (PREFER, PREFER, 2),
                                   (PREFER, OFF, 0), (OFF, PREFER, 0), (OFF, OFF, 0), (REQUIRE, OFF, None),
                                   (OFF, REQUIRE, None), (WITH_PSK, WITH_PSK, 2), (WITH_PSK, REQUIRE, None),
                                   (PREFER, Security(PREFER.modes, PSK), None)):
            with self.subTest(ours=ours, theirs=theirs):
                pair = Pair(ours, theirs)
                self.connect(pair)
                self.assertEqual([c.mode for c in pair.ends[0].connections.values()], [] if mode is None else [mode])
                self.assertEqual(bytes(pair.regions[1].data[:5]), bytes(5) if mode is None else b"hello")

    def test_both_at_once_become_one_connection(self) -> None:
        pair = Pair(REQUIRE)
        pair.write(0, b"to the second")
        pair.write(1, b"to the first!")
        pair.run(300 * MILLI)
        self.assertEqual([len(end.connections) for end in pair.ends], [1, 1])
        self.assertEqual([pair.statuses(0), pair.statuses(1)], [["SUCCESS"], ["SUCCESS"]])

    def test_a_forged_answer_leaves_the_initiator_waiting(self) -> None:
        def tamper(number: int, raw: bytes) -> list[bytes]:
            bad = raw[:1190] + bytes((raw[1190] ^ 1,)) + raw[1191:]
            return [bad] if parse_header(raw).type == PacketType.INIT_ACK else [raw]

        pair = Pair(REQUIRE, tamper=tamper)
        self.connect(pair)
        self.assertEqual((len(pair.ends[0].initiators), pair.ends[0].connections), (1, {}))
        self.assertEqual(pair.ends[0].counters["drop_tag"], pair.ends[0].initiators.popitem()[1].tries)
        self.assertEqual(pair.statuses(0), [])

    def test_nobody_there_fails_the_work_request(self) -> None:
        pair = Pair(REQUIRE, tamper=lambda *_: [])
        pair.write(0, b"hello")
        pair.run(6 * SECOND)
        self.assertEqual(pair.statuses(0), ["RETRY_EXC_ERR"])


class Phases(unittest.TestCase):
    def setUp(self) -> None:
        self.sealer = Sealer(PhaseKeys(bytes(16), bytes(12), bytes(32)), 10)
        self.unsealer = Unsealer(PhaseKeys(bytes(16), bytes(12), bytes(32)), 0)
        self.number = 0

    def sealed(self) -> bytes:
        header = Header(PacketType.PROBE, self.sealer.flags(), 0, 0, 1, self.number)
        raw = self.sealer.seal(header, self.number, encode_open(Datagram(header, Probe(1)), 16))
        self.number += 1
        return raw

    def opened(self, raw: bytes, now: int = 0) -> bool:
        try:
            return bool(self.unsealer.open(parse_header(raw), raw, now, MILLI))
        except Drop:
            return False

    def update(self) -> None:
        self.sealer.confirmed, self.sealer.sealed = True, 10
        self.assertTrue(self.sealer.update(5))

    def test_an_update_needs_its_time_and_a_sign_of_the_receiver(self) -> None:
        self.assertFalse(self.sealer.update(5))
        self.sealer.sealed = 10
        self.assertFalse(self.sealer.update(5))
        self.sealer.accepted(0)
        self.assertTrue(self.sealer.update(5))
        self.sealer.sealed = 10
        self.sealer.accepted(4)  # cut in the phase before
        self.sealer.answered(77)
        self.assertFalse(self.sealer.update(6))
        self.sealer.tokens.add(77)
        self.sealer.answered(77)
        self.assertTrue(self.sealer.update(6))

    def test_a_receiver_follows_one_phase_and_not_two(self) -> None:
        self.assertTrue(self.opened(self.sealed()))
        late = self.sealed()
        self.update()
        first_of_1 = self.sealed()
        self.update()
        of_2 = self.sealed()
        self.assertFalse(self.opened(of_2))  # the flag is that of phase 0, the key is not
        self.assertTrue(self.opened(first_of_1))
        self.assertTrue(self.opened(late, 3 * MILLI - 1))
        self.assertTrue(self.opened(of_2))

    def test_what_has_no_room_for_a_tag_is_truncated(self) -> None:
        raw = self.sealed()
        for size, counter in ((31, "drop_truncated"), (32, "drop_tag")):
            with self.assertRaisesRegex(Drop, counter):
                self.unsealer.open(parse_header(raw), raw[:size], 0, MILLI)

    def test_the_keys_of_the_phase_before_are_kept_for_three_pto(self) -> None:
        late = self.sealed()
        self.update()
        self.assertTrue(self.opened(self.sealed()))
        self.assertFalse(self.opened(late, 3 * MILLI))

    def test_the_replay_window_has_64_numbers(self) -> None:
        window = Replay()
        self.assertTrue(all(map(window.take, (0, 2, 1, 100, 37))))
        self.assertFalse(any(map(window.take, (0, 1, 2, 36, 37, 100))))
        self.assertTrue(window.take(99) and window.take(10**6) and not window.take(99))


class Weather(unittest.TestCase):
    def test_messages_survive_losses_updates_and_an_attacker(self) -> None:
        for seed in range(2):
            source = random.Random(seed)

            def tamper(_: int, raw: bytes, source: random.Random = source) -> list[bytes]:
                damaged = bytearray(raw)
                damaged[source.randrange(len(raw))] ^= 1 << source.randrange(8)
                return source.choice([[raw]] * 7 + [[], [raw, raw], [bytes(damaged), raw]])

            pair = Pair(WITH_PSK, key_update=20, tamper=tamper)
            for i in range(40):
                content = source.randbytes(3000)
                pair.write(i % 2, content)
                pair.run(40 * MILLI)
                for number, raw in source.sample(pair.sent, min(5, len(pair.sent))):
                    pair.inject(1 - number, raw)  # whatever it was, at any time later
                self.assertEqual(bytes(pair.regions[1 - i % 2].data[:3000]), content, (seed, i))
            self.assertEqual([pair.statuses(0), pair.statuses(1)], [["SUCCESS"] * 20] * 2)
            for end in pair.ends:
                [connection] = end.connections.values()
                assert connection.sealer is not None and connection.unsealer is not None
                self.assertGreater(connection.sealer.updates, 2)
                self.assertGreater(min(end.counters["drop_tag"], end.counters["drop_replay"]), 0)

    def test_no_nonce_is_used_twice(self) -> None:
        used = []
        original = PhaseKeys.nonce

        def noted(self: PhaseKeys, is_data: bool, path: int, pseq: int) -> bytes:
            used.append((self.key, original(self, is_data, path, pseq)))
            return used[-1][1]

        pair = Pair(REQUIRE, key_update=20, tamper=lambda number, raw: [raw] if number == 0 else [])
        with mock.patch.object(PhaseKeys, "nonce", noted):
            pair.write(0, b"x" * 5000)
            pair.run(900 * MILLI)  # INITs and INIT_ACKs only
        self.assertGreater(len(used), 2)
        self.assertEqual(len(set(used)), len(used))


if __name__ == "__main__":
    unittest.main()
