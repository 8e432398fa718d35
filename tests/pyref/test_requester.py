"""The sending half of the small peer: SEND, WRITE, READ, atomics, credits, failures, against a scripted responder."""

import random
import unittest

from pyref.codepoints import Flag, Nak, Opcode, Reason
from pyref.numbers import MASK32
from pyref.packets import CreditTlv, Data, NakTlv, Probe
from pyref.scripted_peer import MILLI, MTU, PSN, QPN, ScriptedPeer


class Requester(unittest.TestCase):
    def setUp(self) -> None:
        self.peer = ScriptedPeer()
        self.region = self.peer.ready()
        assert self.peer.qp is not None and self.peer.qp.sending is not None
        self.qp, self.half = self.peer.qp, self.peer.qp.sending

    def post(self, op: str, length: int, **members: int) -> None:
        self.peer.post(self.region, op, length, **members)
        self.peer.step()

    def answer_open(self, credits: int = 8, rd_atomic: int = 4) -> None:
        """The half asks to be opened and is accepted."""
        [opened] = self.peer.data(Opcode.STREAM_OPEN)[-1:]
        assert opened.control is not None
        self.assertEqual((opened.control.sq_psn, opened.control.dst_qpn), (PSN, QPN))
        self.peer.acknowledge()
        self.peer.send(self.peer.stream_control(Opcode.STREAM_ACCEPT, incarnation=opened.control.incarnation,
                                                credit_limit=credits, rd_atomic=rd_atomic, min_rnr_timer=1))

    def opened(self, op: str, length: int, **members: int) -> None:
        self.post(op, length, **members)
        self.answer_open()

    def statuses(self) -> list[str]:
        return [c["status"] for c in self.qp.completions]

    def test_a_write_is_cut_at_multiples_of_the_payload_and_completes_when_accepted(self) -> None:
        self.region.data[:1300] = random.Random(1).randbytes(1300)
        self.opened("write", 1300, remote_addr=0x5000, rkey=9)
        parts = self.peer.data(Opcode.WRITE)
        self.assertEqual([(p.offset, p.length, p.va, p.rkey) for p in parts],
                         [(at, 1300, 0x5000, 9) for at in (0, 512, 1024)])
        self.assertEqual(b"".join(p.payload for p in parts), bytes(self.region.data[:1300]))
        newest = [d for d in self.peer.inbox if isinstance(d.body, Data)][-1]
        self.assertTrue(newest.header.flags & Flag.LAST and newest.header.flags & Flag.AR)
        self.assertEqual(self.statuses(), [])
        self.peer.acknowledge()
        self.assertEqual(list(self.qp.completions), [
            {"wr_id": 1, "queue": "send", "status": "SUCCESS", "opcode": "RDMA_WRITE", "bytes": 1300}])

    def test_a_gap_is_repaired_at_once_under_the_same_cpsn(self) -> None:
        self.opened("write", 4 * MTU)
        parts = [d for d in self.peer.inbox if isinstance(d.body, Data) and d.body.op == Opcode.WRITE]
        lost = parts[1]
        again = self.peer.acknowledge((lost.header.pseq - self.peer.answer.first_pseq) & MASK32)
        self.assertEqual([d.body.cpsn for d in again], [lost.body.cpsn])
        self.assertNotEqual(again[0].header.pseq, lost.header.pseq)
        self.assertTrue(again[0].header.has(Flag.RTX))
        self.peer.acknowledge()
        self.assertEqual(self.statuses(), ["SUCCESS"])

    def test_sends_wait_for_credit_and_ask_for_it(self) -> None:
        self.post("send", 3)
        self.peer.post(self.region, "send_imm", 3, imm=7)
        self.answer_open(credits=1)
        self.assertEqual([d.rqsn for d in self.peer.data(Opcode.SEND, Opcode.SEND_IMM)], [0])
        [blocked] = self.peer.data(Opcode.STREAM_BLOCKED)
        assert blocked.control is not None
        self.assertEqual(blocked.control.credit_limit, 2)
        self.peer.acknowledge()
        for _ in range(5):
            self.peer.step(50 * MILLI)
        self.assertEqual(self.peer.bodies(Probe)[-1].streams, [QPN & 0xFFFF])
        self.peer.acknowledge(credits=[CreditTlv(self.qp.stream, self.half.incarnation, 2)])
        self.peer.acknowledge()
        self.assertEqual([(d.rqsn, d.imm) for d in self.peer.data(Opcode.SEND_IMM)], [(1, 7)])
        self.assertEqual(self.statuses(), ["SUCCESS"] * 2)

    def test_without_receives_the_work_request_fails_after_its_retries(self) -> None:
        self.qp.rnr_retry = 2
        self.post("send", 3)
        self.answer_open(credits=0)
        self.peer.acknowledge(credits=[CreditTlv(self.qp.stream, self.half.incarnation, 0)])
        self.peer.step(MILLI)
        self.assertEqual((self.statuses(), self.qp.state), (["RNR_RETRY_EXC_ERR"], "err"))

    def test_a_read_is_placed_in_whatever_order_it_comes(self) -> None:
        self.opened("read", 600, remote_addr=0x5000, rkey=9)
        [read] = self.peer.data(Opcode.READ_REQ)
        for offset, payload in ((512, b"b" * 88), (0, b"a" * 512)):
            self.peer.send(self.peer.request(Opcode.READ_RESP, 0, rdslot=read.rdslot, offset=offset, length=600,
                                             payload=payload))
        self.assertEqual(bytes(self.region.data[:600]), b"a" * 512 + b"b" * 88)
        self.assertEqual(self.statuses(), ["SUCCESS"])

    def test_a_response_that_contradicts_its_request_fails_it(self) -> None:
        self.opened("read", 600)
        [read] = self.peer.data(Opcode.READ_REQ)
        base = self.peer.next_cpsn
        self.peer.send(self.peer.request(Opcode.READ_RESP, 0, rdslot=read.rdslot, length=601, payload=bytes(512)))
        self.assertEqual((self.peer.ack().cack, self.peer.naks()), ((base + 1) & MASK32, []))
        self.assertEqual((self.statuses(), self.qp.state), (["REM_OP_ERR"], "err"))

    def test_an_atomic_brings_the_value_before(self) -> None:
        self.opened("fetch_add", 8, operand=5)
        [add] = self.peer.data(Opcode.FETCH_ADD)
        self.assertEqual((add.operand, add.length), (5, 8))
        self.peer.send(self.peer.request(Opcode.ATOMIC_RESP, 0, rdslot=add.rdslot, original=0x0102030405060708))
        self.assertEqual(sorted(self.region.data[:8]), [1, 2, 3, 4, 5, 6, 7, 8])
        self.assertEqual(self.statuses(), ["SUCCESS"])

    def test_a_nak_voids_the_message_and_all_behind_it(self) -> None:
        self.post("write", 3)
        self.peer.post(self.region, "write", 600)
        self.peer.post(self.region, "write", 3)
        self.answer_open()
        bad = self.peer.data(Opcode.WRITE)[1]
        self.peer.inbox = [d for d in self.peer.inbox if not (isinstance(d.body, Data) and d.body.msn > 0)]
        again = self.peer.acknowledge(naks=[NakTlv(bad.cpsn, Nak.ACCESS)])
        self.assertEqual([(d.body.op, d.body.msn) for d in again[:3]], [(Opcode.VOID, 1), (Opcode.VOID, 1),
                                                                        (Opcode.VOID, 2)])
        self.assertEqual(self.statuses(), ["SUCCESS", "REM_ACCESS_ERR", "WR_FLUSH_ERR"])

    def test_rnr_voids_twice_and_starts_again(self) -> None:
        self.opened("send", 600)
        first, _ = self.peer.data(Opcode.SEND)
        self.peer.inbox = [d for d in self.peer.inbox if not (isinstance(d.body, Data) and d.body.op == Opcode.SEND)]
        fresh = self.peer.acknowledge(naks=[NakTlv(first.cpsn, Nak.RNR, 1)])
        self.assertEqual([d.body.op for d in fresh], [Opcode.VOID] * 2)
        [third] = self.peer.acknowledge()
        self.assertEqual((third.body.op, third.body.msn), (Opcode.VOID, 0))
        self.assertNotIn(third.body.cpsn, [d.body.cpsn for d in fresh])
        self.assertFalse([d for d in self.peer.step(MILLI) if d.body.op == Opcode.SEND])
        again = self.peer.acknowledge() + self.peer.step(MILLI)
        self.assertEqual([(d.body.op, d.body.msn, d.body.rqsn) for d in again], [(Opcode.SEND, 0, 0)] * 2)
        self.peer.acknowledge()
        self.assertEqual(self.statuses(), ["SUCCESS"])

    def test_a_stop_names_the_message_that_failed(self) -> None:
        self.post("write", 3)
        self.peer.post(self.region, "write", 4)
        self.answer_open()
        stop = self.peer.stream_control(Opcode.STREAM_STOP, 1, reason=Reason.FAILED, code=Nak.REMOTE_OP,
                                        incarnation=self.half.incarnation)
        self.peer.send(stop)
        self.assertEqual((self.statuses(), self.qp.state), (["SUCCESS", "REM_OP_ERR"], "err"))

    def test_a_stop_without_a_failure_errs_after_one_try(self) -> None:
        self.opened("write", 3)
        self.peer.send(self.peer.stream_control(Opcode.STREAM_STOP, 0, reason=Reason.GONE,
                                                incarnation=self.half.incarnation))
        self.peer.acknowledge()
        self.peer.step(200 * MILLI)
        self.assertEqual(self.qp.state, "rts")
        self.peer.step(100 * MILLI)
        self.assertEqual(self.statuses(), ["RETRY_EXC_ERR"])

    def test_a_queue_pair_errs_when_its_peer_is_silent_for_all_its_tries(self) -> None:
        self.qp.retry_cnt = 1
        self.opened("write", 3)
        for _ in range(13):
            self.peer.step(40 * MILLI)
        self.assertEqual(self.qp.state, "rts")
        self.peer.step(40 * MILLI)
        self.assertEqual((self.statuses(), self.qp.state), (["RETRY_EXC_ERR"], "err"))

    def test_a_refused_half_is_opened_again_until_its_tries_are_used_up(self) -> None:
        self.qp.retry_cnt = 1
        self.post("write", 3)
        for incarnation in (1, 2):
            self.peer.acknowledge()
            self.peer.send(self.peer.stream_control(Opcode.STREAM_REFUSE, incarnation=incarnation,
                                                    reason=Reason.NOT_READY))
            self.peer.step(70 * MILLI)
        self.assertEqual((self.statuses(), len(self.peer.data(Opcode.STREAM_OPEN))), (["RETRY_EXC_ERR"], 2))


if __name__ == "__main__":
    unittest.main()
