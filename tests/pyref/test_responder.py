"""The small peer driven in memory: handshake, placement, order, exactly once, failures, the end."""

import random
import sys
import unittest
from typing import Any

from pyref.codec import encode
from pyref.codepoints import MAGIC, Flag, Nak, Opcode, PacketType, Reason
from pyref.crc32c import seal
from pyref.small_codings import wire_address
from pyref.numbers import MASK32
from pyref.packets import Ack, Close, Data, Datagram, Header, ProbeAck, Reset, VersionList
from pyref.receiving_half import HELD_BYTES
from pyref.scripted_peer import MILLI, MTU, QPN, ScriptedPeer


def word(value: int) -> bytes:
    return value.to_bytes(8, sys.byteorder)


class Handshake(unittest.TestCase):
    def setUp(self) -> None:
        self.peer = ScriptedPeer()

    def test_an_init_is_answered_with_one_of_its_size_at_the_listening_port(self) -> None:
        raw = self.peer.init(size=1500, payload_mtu=1408)
        [answer] = self.peer.deliver(raw)
        self.assertEqual((answer.header.type, answer.header.dcid, answer.body.size), (1, self.peer.scid, 1500))
        self.assertEqual((answer.body.nonce, answer.body.payload_mtu, answer.body.cpsn_window), (0x77, 1408, 128))
        self.assertEqual(self.peer.addresses, [("127.0.0.1", 61441)])

    def test_a_repeated_init_gets_the_same_connection_and_may_lower_the_payload(self) -> None:
        first = self.peer.connect(payload_mtu=2048)
        again = self.peer.connect(payload_mtu=1024)
        self.assertEqual((again.scid, again.first_cpsn, again.payload_mtu), (first.scid, first.first_cpsn, 1024))
        self.peer.probe(token=1)
        self.assertEqual(self.peer.connect(payload_mtu=512).payload_mtu, 1024)

    def test_another_init_of_a_connected_endpoint_is_told_of_the_connection(self) -> None:
        first = self.peer.connect()
        [answer] = self.peer.deliver(self.peer.init(scid=0x99, nonce=5))
        body = answer.body
        self.assertEqual((body.flags, body.known_cid, body.scid, body.nonce), (1, self.peer.scid, first.scid, 5))
        self.assertEqual((answer.header.dcid, answer.header.pseq, body.size), (0x99, 0, 1200))

    def test_bad_inits_are_dropped_under_their_names(self) -> None:
        cases: list[tuple[dict[str, Any], str]] = [
            ({"magic": MAGIC + 1}, "drop_magic"), ({"version_min": 2, "version_max": 3}, "drop_version"),
            ({"scid": 0}, "drop_malformed"), ({"listen_port": 0}, "drop_malformed"), ({"size": 1199}, "drop_truncated"),
            ({"payload_mtu": 511}, "drop_malformed"), ({"max_paths": 0}, "drop_malformed"),
            ({"cpsn_window": 63}, "drop_malformed"), ({"security": 2}, "drop_security")]
        for changes, counter in cases:
            peer = ScriptedPeer()
            self.assertEqual(peer.deliver(peer.init(**changes)), [], changes)
            self.assertEqual(dict(peer.endpoint.counters), {counter: 1}, changes)

    def test_another_version_is_answered_with_the_versions_spoken_here(self) -> None:
        raw = bytearray(self.peer.init())
        raw[0] = 0x20
        [answer] = self.peer.deliver(seal(bytes(raw[:-4])))
        self.assertEqual(answer.body, VersionList([1]))
        self.assertEqual((self.peer.addresses, answer.header.dcid), ([self.peer.source], 0))
        self.assertEqual(self.peer.deliver(seal(bytes(raw[:1190]))), [])

    def test_the_limit_of_connections_holds(self) -> None:
        peer = ScriptedPeer(max_connections=1)
        peer.connect()
        self.assertEqual(peer.deliver(peer.init(scid=3, endpoint_id=bytes(16))), [])
        self.assertEqual(peer.endpoint.counters["drop_limit"], 1)

    def test_a_connection_that_is_not_validated_sends_nothing_and_dies(self) -> None:
        self.peer.connect()
        for _ in range(60):
            self.assertEqual(self.peer.step(100 * MILLI), [])
        self.assertEqual(self.peer.endpoint.connections, {})

    def test_checks_of_the_connection_come_in_order(self) -> None:
        self.peer.ready()
        void = Data(Opcode.VOID, cpsn=self.peer.next_cpsn & MASK32)
        header = {"dcid": self.peer.cid, "pseq": (self.peer.first_pseq + 1) & MASK32}
        cases: list[tuple[dict[str, int], Data, str]] = [
            ({"path": 64, "dcid": 1}, void, "drop_path"), ({"dcid": 1}, void, "drop_connection"),
            ({"pseq": (self.peer.first_pseq + 65537) & MASK32}, void, "drop_pseq"),
            ({"pseq": (self.peer.first_pseq - 65537) & MASK32}, void, "drop_pseq"),
            ({"path": 5, "pseq": (self.peer.first_pseq - 1) & MASK32}, void, "drop_pseq"),
            ({}, Data(Opcode.VOID, cpsn=(self.peer.first_cpsn + 1 + 128) & MASK32), "drop_cpsn"),
            ({}, Data(Opcode.VOID, cpsn=(self.peer.first_cpsn - 256 - (1 << 20)) & MASK32), "drop_cpsn"),
            ({}, Data(Opcode.VOID, payload=b"x"), "drop_malformed")]
        for changes, data, counter in cases:
            self.peer.endpoint.counters.clear()
            self.peer.deliver(encode(Datagram(Header(PacketType.DATA, **{**header, **changes}), data)))
            self.assertEqual(dict(self.peer.endpoint.counters), {counter: 1})


class Placement(unittest.TestCase):
    def setUp(self) -> None:
        self.peer = ScriptedPeer()
        self.region = self.peer.ready(receives=4)
        assert self.peer.qp is not None
        self.qp = self.peer.qp

    def memory(self, length: int) -> bytes:
        return bytes(self.region.data[:length])

    def test_a_write_out_of_order_with_losses_and_repetitions_is_placed_once(self) -> None:
        content = random.Random(3).randbytes(8 * MTU - 5)
        packets = self.peer.write(self.region, 0, content)
        first = self.peer.next_cpsn
        raws = [self.peer.packet(data, path=i % 3) for i, data in enumerate(packets)]
        source = random.Random(4)
        for i in (7, 2, 5, 2, 0, 6):
            self.peer.deliver(raws[i])
        self.assertEqual(self.memory(len(content))[-100:], bytes(100))  # the tail is held
        for i in (1, 3, 4, 4):
            self.peer.send(packets[i], path=source.randrange(3), cpsn=first + i)
        self.assertEqual(self.memory(len(content)), content)
        self.assertEqual(self.peer.ack().cack, (first + 8) & MASK32)
        self.assertEqual(self.peer.ack().cpsn_limit, (first + 8 + 128) & MASK32)
        self.region.data[:] = bytes(4096)
        self.peer.send(packets[0], cpsn=first)
        self.assertEqual(self.memory(MTU), bytes(MTU))

    def test_the_tail_waits_for_earlier_messages(self) -> None:
        one = self.peer.write(self.region, 0, b"a" * 600)
        [two] = self.peer.write(self.region, 1, b"flag")
        self.peer.send(two)
        self.peer.send(one[0])
        self.assertEqual(self.memory(4), b"aaaa")
        self.peer.send(one[1])
        self.assertEqual(self.memory(4), b"flag")

    def test_a_tail_without_room_is_dropped_unless_it_can_be_placed_at_once(self) -> None:
        self.peer.endpoint.held = HELD_BYTES
        base = self.peer.next_cpsn
        self.peer.send(self.peer.write(self.region, 1, b"late")[0])
        self.assertEqual((self.peer.ack().cack, self.peer.ack().blocks[0].vector & 1), (base & MASK32, 0))
        self.assertEqual(self.peer.naks(), [])
        self.peer.send(self.peer.write(self.region, 0, b"now")[0])
        self.assertEqual(self.memory(3), b"now")

    def test_path_blocks_show_gaps_and_counters(self) -> None:
        self.peer.deliver(self.peer.packet(Data(Opcode.VOID), path=2))
        self.peer.deliver(self.peer.packet(Data(Opcode.VOID), path=2, skip=2), ce=True)
        block = self.peer.ack().blocks[0]
        self.assertEqual((block.path, block.vector, block.rx_count, block.ce_count), (2, 0b1001, 2, 1))
        self.assertEqual((block.largest, block.ts_echo), ((self.peer.first_pseq + 3) & MASK32, 77))

    def test_acks_come_after_two_or_fifty_microseconds_or_sixteen_packets(self) -> None:
        for flags, before, after in ((Flag.AR, 1_500, 600), (0, 45_000, 6_000)):
            self.assertEqual(self.peer.deliver(self.peer.packet(Data(Opcode.VOID), flags)), [])
            self.assertEqual(self.peer.step(before), [])
            self.assertEqual(len(self.peer.step(after)), 1)
        counts = [len(self.peer.deliver(self.peer.packet(Data(Opcode.VOID)))) for _ in range(16)]
        self.assertEqual(counts, [0] * 15 + [1])

    def test_the_smaller_of_two_due_times_counts(self) -> None:
        self.peer.deliver(self.peer.packet(Data(Opcode.VOID), Flag.AR))
        self.peer.deliver(self.peer.packet(Data(Opcode.VOID), 0))
        self.assertEqual(len(self.peer.step(2_000)), 1)

    def test_a_duplicate_is_acknowledged_at_once(self) -> None:
        self.peer.send(Data(Opcode.VOID))
        [answer] = self.peer.deliver(self.peer.packet(Data(Opcode.VOID), 0, cpsn=self.peer.next_cpsn - 1))
        self.assertEqual(answer.body.blocks[0].vector & 3, 3)

    def test_sends_meet_their_receives_by_rqsn_in_any_order(self) -> None:
        for msn in (2, 0, 1):
            self.peer.send(self.peer.request(Opcode.SEND_IMM, msn, rqsn=msn, imm=msn, length=3, payload=b"abc"))
        self.assertEqual([c["wr_id"] for c in self.qp.completions], [100, 101, 102])
        self.assertEqual([c["imm"] for c in self.qp.completions], [0, 1, 2])
        self.assertEqual(bytes(self.region.data[2048:2051]), b"abc")

    def test_a_write_with_immediate_consumes_a_receive(self) -> None:
        data = self.peer.request(Opcode.WRITE_IMM, 0, rqsn=0, imm=9, length=2, va=self.region.addr + 8,
                                 rkey=self.region.key, payload=b"hi")
        self.peer.send(data)
        self.assertEqual(self.qp.completions[0], {"wr_id": 100, "queue": "recv", "status": "SUCCESS",
                                                  "opcode": "RECV_RDMA_WITH_IMM", "bytes": 2, "imm": 9})

    def test_send_inv_takes_the_remote_rights(self) -> None:
        self.peer.send(self.peer.request(Opcode.SEND_INV, 0, rqsn=0, imm=self.region.key))
        self.peer.send(self.peer.write(self.region, 1, b"x")[0])
        self.assertEqual(self.peer.naks(), [(Nak.ACCESS, 0)])

    def test_atomics_execute_once_and_in_order(self) -> None:
        swap = self.peer.request(Opcode.COMPARE_SWAP, 1, length=8, va=self.region.addr, rkey=self.region.key,
                                 rdslot=71, operand=100, compare=5)
        add = self.peer.request(Opcode.FETCH_ADD, 0, length=8, va=self.region.addr, rkey=self.region.key, rdslot=70,
                                operand=5)
        first = self.peer.next_cpsn
        self.peer.send(swap)
        self.assertEqual(self.memory(8), bytes(8))
        for _ in range(3):
            self.peer.send(add, cpsn=first + 1)
            self.peer.send(swap, cpsn=first)
        self.peer.next_cpsn = first + 2
        self.assertEqual(self.memory(8), word(100))
        self.assertEqual([(d.rdslot, d.original) for d in self.peer.data(Opcode.ATOMIC_RESP)], [(70, 0), (71, 5)])

    def test_a_read_is_answered_in_packets_and_lost_ones_come_again(self) -> None:
        content = random.Random(5).randbytes(1200)
        self.region.data[:1200] = content
        self.peer.send(self.peer.request(Opcode.READ_REQ, 0, length=1200, va=self.region.addr, rkey=self.region.key,
                                         rdslot=0xABCD))
        self.assertEqual(len(self.peer.data(Opcode.READ_RESP)), 3)
        self.peer.inbox = [d for d in self.peer.inbox if not (isinstance(d.body, Data) and d.body.offset == 512)]
        again = self.peer.acknowledge()
        self.assertEqual([d.body.offset for d in again], [512])
        self.assertTrue(again[0].header.has(Flag.RTX))
        parts = self.peer.data(Opcode.READ_RESP)
        self.assertEqual(b"".join(p.payload for p in parts), content)
        self.assertEqual({(p.rdslot, p.length, p.status, p.stream) for p in parts}, {(0xABCD, 1200, 0, QPN & 0xFFFF)})

    def test_a_response_that_is_never_acknowledged_is_repeated_by_timer(self) -> None:
        self.peer.send(self.peer.request(Opcode.READ_REQ, 0, va=self.region.addr, rkey=self.region.key))
        before = len(self.peer.bodies(Data))
        for _ in range(20):
            self.peer.step(10 * MILLI)
        self.assertGreater(len(self.peer.bodies(Data)), before + 1)


class Failures(unittest.TestCase):
    def setUp(self) -> None:
        self.peer = ScriptedPeer()
        self.region = self.peer.ready(receives=2)
        assert self.peer.qp is not None
        self.qp = self.peer.qp

    def stop(self) -> Data:
        return self.peer.data(Opcode.STREAM_STOP)[-1]

    def test_a_bad_key_fails_the_message_and_the_queue_pair(self) -> None:
        data = self.peer.write(self.region, 0, b"x")[0]
        data.rkey ^= 1
        self.peer.send(data)
        self.assertEqual(self.peer.naks(), [(Nak.ACCESS, 0)])
        stop = self.stop()
        assert stop.control is not None
        self.assertEqual((stop.msn, stop.control.reason, stop.control.code), (0, Reason.FAILED, Nak.ACCESS))
        self.assertEqual(self.qp.state, "err")
        self.assertEqual([c["status"] for c in self.qp.completions], ["WR_FLUSH_ERR"] * 2)
        cpsn = self.peer.next_cpsn - 1
        self.peer.send(data, cpsn=cpsn)
        self.assertEqual(self.peer.naks()[-1], (Nak.UNKNOWN_STREAM, 0))
        self.peer.send(Data(Opcode.VOID, stream=self.qp.stream, msn=0), cpsn=cpsn)
        self.assertEqual(self.peer.ack().cack, (cpsn + 1) & MASK32)

    def test_a_message_that_fails_waits_for_those_before_it(self) -> None:
        bad = self.peer.request(Opcode.SEND, 1, rqsn=1, length=1025, payload=bytes(MTU))
        self.peer.send(bad)
        self.peer.send(self.peer.request(Opcode.SEND, 2, rqsn=0, payload=b"", length=0))
        self.assertEqual(self.peer.naks(), [(Nak.LENGTH, 0)] * 2)
        self.assertEqual(self.qp.state, "rts")
        self.peer.send(self.peer.request(Opcode.SEND, 0, rqsn=0, length=1, payload=b"a"))
        self.assertEqual([c["status"] for c in self.qp.completions], ["SUCCESS", "LOC_LEN_ERR"])
        self.assertEqual((self.stop().msn, self.qp.state), (1, "err"))

    def test_a_failure_is_told_when_all_responses_are_accepted(self) -> None:
        self.peer.send(self.peer.request(Opcode.READ_REQ, 0, length=1, va=self.region.addr, rkey=self.region.key))
        self.peer.send(self.peer.request(Opcode.WRITE, 1, length=1, payload=b"x"))
        self.assertEqual((self.peer.data(Opcode.STREAM_STOP), self.qp.state), ([], "rts"))
        self.peer.acknowledge()
        self.assertEqual((self.stop().msn, self.qp.state), (1, "err"))

    def test_codes_of_the_table(self) -> None:
        region, request = self.region, self.peer.request
        remote = {"va": region.addr, "rkey": region.key}
        cases: list[tuple[Data, int]] = [
            (request(Opcode.WRITE, 1024, length=1, payload=b"x", **remote), Nak.WINDOW),
            (request(Opcode.WRITE, 0, length=(1 << 31) + 1, payload=bytes(MTU), **remote), Nak.INVALID),
            (request(Opcode.WRITE, 0, length=2, payload=b"x", **remote), Nak.INVALID),
            (request(Opcode.WRITE, 0, offset=1, length=2, payload=b"x", **remote), Nak.INVALID),
            (request(Opcode.WRITE, 0, length=8000, payload=bytes(MTU), **remote), Nak.ACCESS),
            (request(Opcode.READ_REQ, 0, offset=MTU, length=1024, **remote), Nak.INVALID),
            (request(Opcode.FETCH_ADD, 0, length=16, **remote), Nak.INVALID),
            (request(Opcode.SEND, 0, rqsn=2, length=0), Nak.RNR), (request(Opcode.SEND, 0, rqsn=MASK32), Nak.RNR)]
        for data, code in cases:
            peer = ScriptedPeer()
            peer.ready(receives=2)
            assert peer.qp is not None
            data.stream = peer.qp.stream
            peer.send(data)
            self.assertEqual([nak[0] for nak in peer.naks()], [code], data)

    def test_a_failure_at_finishing_is_told_by_stop(self) -> None:
        for data, code in ((self.peer.request(Opcode.READ_REQ, 0, length=1, va=1, rkey=2), Nak.ACCESS),
                           (self.peer.request(Opcode.FETCH_ADD, 0, length=8, va=self.region.addr + 4,
                                              rkey=self.region.key), Nak.INVALID),
                           (self.peer.request(Opcode.SEND, 0, rqsn=1), Nak.INVALID)):
            peer = ScriptedPeer()
            peer.ready(receives=2)
            assert peer.qp is not None
            data.stream = peer.qp.stream
            peer.send(data)
            stop = peer.data(Opcode.STREAM_STOP)[-1]
            assert stop.control is not None
            self.assertEqual((peer.naks(), stop.control.code), ([], code))

    def test_packets_of_a_message_must_agree(self) -> None:
        one, two = self.peer.write(self.region, 0, bytes(600))
        self.peer.send(one)
        two.va += 8
        self.peer.send(two)
        self.assertEqual(self.peer.naks(), [(Nak.INVALID, 0)])

    def test_a_void_makes_the_receiver_forget_what_has_arrived(self) -> None:
        one, two = self.peer.write(self.region, 0, b"b" * 600)
        self.peer.send(two)
        self.assertEqual(self.peer.endpoint.held, 88)
        self.peer.send(self.peer.request(Opcode.VOID, 0))
        self.assertEqual(self.peer.endpoint.held, 0)
        self.peer.send(one)
        self.assertEqual(bytes(self.region.data[MTU:600]), bytes(88))
        self.peer.send(two)
        self.assertEqual(bytes(self.region.data[:600]), b"b" * 600)

    def test_a_message_that_is_finished_and_comes_again_is_accepted_without_effect(self) -> None:
        [data] = self.peer.write(self.region, 0, b"x")
        for expected in (ord("x"), 0):
            self.peer.send(data)
            self.assertEqual((self.region.data[0], self.peer.naks()), (expected, []))
            self.region.data[0] = 0
        self.assertEqual(self.peer.ack().cack, self.peer.next_cpsn & MASK32)

    def test_a_receive_that_has_completed_cannot_be_named_again(self) -> None:
        self.peer.send(self.peer.request(Opcode.SEND, 0, rqsn=0))
        self.peer.send(self.peer.request(Opcode.SEND, 2, rqsn=0))
        self.assertEqual(self.peer.naks(), [(Nak.INVALID, 0)])

    def test_rnr_names_the_timer(self) -> None:
        self.peer.send(self.peer.request(Opcode.SEND, 0, rqsn=7))
        self.assertEqual(self.peer.naks(), [(Nak.RNR, 12)])


class Streams(unittest.TestCase):
    def setUp(self) -> None:
        self.peer = ScriptedPeer()
        self.peer.connect()

    def test_accept_tells_credits_and_limits(self) -> None:
        region = self.peer.endpoint.memory.create(4096, {"local_write"})
        self.peer.create_qp(3, region, rd_atomic=7, min_rnr_timer=9)
        answer = self.peer.open(msn=5)
        self.assertEqual((answer.credit_limit, answer.rd_atomic, answer.min_rnr_timer, answer.dst_qpn), (3, 7, 9, QPN))
        self.peer.send(self.peer.request(Opcode.SEND, 5, rqsn=0))
        assert self.peer.qp is not None
        self.assertEqual(len(self.peer.qp.completions), 1)

    def test_refusals_say_why(self) -> None:
        for changes, reason in (({"state": "reset"}, Reason.NOT_READY), ({"state": "err"}, Reason.NOT_READY),
                                ({"rq_psn": 1}, Reason.MISMATCH), ({"remote_qpn": 77}, Reason.MISMATCH),
                                ({"remote_address": wire_address("10.0.0.1")}, Reason.MISMATCH), ({"qpn": 0x7777}, Reason.GONE)):
            self.peer.create_qp(**changes)
            self.assertEqual(self.peer.open().reason, reason, changes)

    def test_blocked_is_answered_at_once_and_again_when_a_receive_is_posted(self) -> None:
        region = self.peer.endpoint.memory.create(4096, {"local_write"})
        qp = self.peer.create_qp(0, region)
        self.assertEqual(self.peer.open().credit_limit, 0)
        self.peer.send(self.peer.stream_control(Opcode.STREAM_BLOCKED, credit_limit=1))
        tlv = self.peer.ack().credits[0]
        self.assertEqual((tlv.stream, tlv.incarnation, tlv.limit), (QPN & 0xFFFF, 1, 0))
        qp.receives.extend(self.peer.create_qp(1, region).receives)
        self.peer.qp = qp
        assert qp.receiving is not None
        qp.receiving.posted(self.peer.now)
        [answer] = self.peer.step()
        self.assertEqual(answer.body.credits[0].limit, 1)

    def test_close_ends_the_half_and_voids_its_responses(self) -> None:
        region = self.peer.ready()
        self.peer.send(self.peer.request(Opcode.READ_REQ, 0, length=1, va=region.addr, rkey=region.key))
        self.peer.send(self.peer.stream_control(Opcode.STREAM_CLOSE))
        self.assertEqual([(d.stream, d.msn) for d in self.peer.data(Opcode.VOID)], [(0, 0)])
        self.peer.send(self.peer.write(region, 1, b"x")[0])
        self.assertEqual(self.peer.naks(), [(Nak.UNKNOWN_STREAM, 0)])

    def test_a_stream_closed_under_another_incarnation_stays_open(self) -> None:
        region = self.peer.ready()
        self.peer.send(self.peer.stream_control(Opcode.STREAM_CLOSE, incarnation=2))
        self.peer.send(self.peer.write(region, 0, b"x")[0])
        self.assertEqual(region.data[0], ord("x"))

    def test_a_malformed_message_counts_on_its_path_and_is_not_accepted(self) -> None:
        self.peer.ready()
        base = self.peer.next_cpsn
        rx = self.peer.ack().blocks[0].rx_count
        self.peer.send(self.peer.stream_control(Opcode.STREAM_BLOCKED, reason=6))
        block = self.peer.ack().blocks[0]
        self.assertEqual((self.peer.ack().cack, block.vector & 1, block.rx_count), (base & MASK32, 0, rx + 1))

    def test_an_accept_for_nobody_is_answered_with_close(self) -> None:
        self.peer.create_qp()
        self.peer.send(self.peer.stream_control(Opcode.STREAM_ACCEPT, incarnation=4))
        [close] = self.peer.data(Opcode.STREAM_CLOSE)
        assert close.control is not None
        self.assertEqual((close.control.incarnation, close.control.dst_qpn), (4, QPN))

    def test_reset_and_destruction_stop_the_half(self) -> None:
        for end in (self.peer.endpoint.reset_qp, self.peer.endpoint.destroy_qp):
            qp = self.peer.create_qp()
            self.peer.open()
            end(qp)
            self.peer.step()
            stop = self.peer.data(Opcode.STREAM_STOP)[-1]
            assert stop.control is not None
            self.assertEqual(stop.control.reason, Reason.GONE)


class Life(unittest.TestCase):
    def setUp(self) -> None:
        self.peer = ScriptedPeer()

    def close(self, cack: int) -> list[Datagram]:
        return self.peer.control(PacketType.CLOSE, Close(cack & MASK32, 0))

    def test_probes_are_answered_with_their_token_and_all_blocks(self) -> None:
        self.peer.ready()
        answers = self.peer.probe(token=0x1234, kind=1, padding=300)
        self.assertEqual([type(a.body) for a in answers], [ProbeAck, Ack])
        self.assertEqual((answers[0].body.token, len(answers[1].body.blocks)), (0x1234, 1))

    def test_a_close_is_confirmed_again_and_again_for_a_second(self) -> None:
        self.peer.ready()
        base = self.peer.window.base
        for cack in (base - 1, base + 1):
            self.assertEqual(self.close(cack), [])
        self.assertEqual(self.peer.endpoint.counters["drop_forged_ack"], 2)
        for _ in range(3):
            self.assertEqual([a.header.type for a in self.close(base)], [PacketType.CLOSE_ACK])
        assert self.peer.qp is not None
        self.assertEqual((self.peer.qp.state, self.peer.qp.receiving), ("rts", None))
        self.peer.step(1001 * MILLI)
        self.assertEqual(self.close(base), [])

    def test_a_reset_needs_the_token(self) -> None:
        self.peer.ready()
        self.peer.control(PacketType.RESET, Reset(bytes(16)))
        self.assertEqual((self.peer.endpoint.counters["drop_reset"], len(self.peer.endpoint.connections)), (1, 1))
        self.peer.control(PacketType.RESET, Reset(self.peer.answer.reset_token))
        assert self.peer.qp is not None
        self.assertEqual((self.peer.endpoint.connections, self.peer.qp.state), ({}, "err"))

    def test_an_idle_connection_asks_for_a_sign_of_life_and_dies_of_silence(self) -> None:
        self.peer.ready()
        self.assertEqual(self.peer.step(9_900 * MILLI), [])
        [probe] = self.peer.step(200 * MILLI)
        self.assertEqual(probe.header.type, PacketType.PROBE)
        self.assertEqual(len(self.peer.step(501 * MILLI)), 1)
        for _ in range(50):
            self.peer.step(100 * MILLI)
        self.assertEqual(self.peer.endpoint.connections, {})

    def test_an_endpoint_that_ends_says_so(self) -> None:
        self.peer.ready()
        self.peer.endpoint.shutdown(self.peer.now)
        self.peer.step()
        self.assertEqual(len(self.peer.data(Opcode.STREAM_STOP)), 1)
        answers = self.peer.acknowledge()
        self.assertEqual([a.header.type for a in answers], [PacketType.CLOSE])
        self.assertEqual(len(self.peer.step(20 * MILLI)), 1)
        self.peer.control(PacketType.CLOSE_ACK, Close())
        self.assertEqual(self.peer.endpoint.connections, {})

    def test_two_that_close_at_once_stay_for_twenty_milliseconds(self) -> None:
        self.peer.connect()
        self.peer.probe(token=1)
        self.peer.endpoint.shutdown(self.peer.now)
        self.peer.step()
        [answer] = self.close(self.peer.window.base)
        self.assertEqual(answer.header.type, PacketType.CLOSE_ACK)
        self.assertEqual(len(self.close(self.peer.window.base)), 1)
        self.peer.step(21 * MILLI)
        self.assertEqual(self.peer.endpoint.connections, {})

    def test_forged_acks_are_dropped(self) -> None:
        self.peer.ready()
        self.peer.acknowledge(cack=(self.peer.window.base + 1) & MASK32)
        self.path_ack(self.peer.path.block(self.peer.now).largest + 1, 0)
        self.assertEqual(self.peer.endpoint.counters["drop_forged_ack"], 2)
        self.path_ack(self.peer.path.block(self.peer.now).largest, 1)
        self.assertEqual(self.peer.endpoint.counters["drop_path"], 1)

    def path_ack(self, largest: int, path: int) -> None:
        block = self.peer.path.block(self.peer.now)
        block.largest, block.path = largest & MASK32, path
        self.peer.acknowledge(blocks=[block])

    def test_random_datagrams_never_break_the_endpoint(self) -> None:
        source = random.Random(77)
        region = self.peer.ready(receives=4, length=1 << 16)
        seeds = [self.peer.packet(d) for d in self.peer.write(region, 0, bytes(2000))]
        seeds += [encode(d) for d in self.peer.inbox] + [self.peer.init(scid=9)]
        seeds += [self.peer.packet(self.peer.stream_control(op)) for op in Opcode if op >= 16]
        seeds += [self.peer.packet(self.peer.request(op, 3)) for op in list(Opcode)[:11]]
        for _ in range(4000):
            raw = bytearray(source.choice(seeds))
            raw[4:8] = self.peer.cid.to_bytes(4, "big")
            for _ in range(source.randrange(4)):
                raw[source.randrange(1, len(raw))] = source.randrange(256)
            self.peer.deliver(seal(bytes(raw[:-4])))
            self.peer.step(source.randrange(2 * MILLI))
            if self.peer.cid not in self.peer.endpoint.connections:
                self.peer = ScriptedPeer()
                self.peer.ready()
        self.assertTrue(self.peer.endpoint.counters)


if __name__ == "__main__":
    unittest.main()
