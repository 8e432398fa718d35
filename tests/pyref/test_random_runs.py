"""Random messages over a random network: whatever order packets come in, however often, each message takes effect once
and in its turn. The model is a list: it knows what verbs promise, and nothing of the protocol."""

import random
import sys
import unittest

from pyref.codepoints import Opcode
from pyref.packets import Data
from pyref.queue_pair import Receive
from pyref.scripted_peer import MTU, ScriptedPeer

RUNS = 25
MESSAGES = 40
SLOT = 2048  # each WRITE has a piece of the region of its own
COUNTER = MESSAGES * SLOT  # what atomics work on
RECEIVES = 1024


class Run:
    """One random application: packets to deliver, and what must come of them."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.peer = ScriptedPeer()
        self.region = self.peer.ready(length=COUNTER + 8)
        assert self.peer.qp is not None
        inbox = self.peer.endpoint.memory.create(MESSAGES * RECEIVES, {"local_write"})
        for i in range(MESSAGES):
            self._post(inbox.number, i)
        self.inbox = inbox
        self.memory = bytearray(COUNTER + 8)
        self.received: list[bytes] = []
        self.answers: dict[int, bytes] = {}
        self.packets: list[Data] = []
        for msn in range(MESSAGES):
            self._message(msn)

    def _post(self, region: int, i: int) -> None:
        assert self.peer.qp is not None
        self.peer.qp.receives.append(Receive(i, region, i * RECEIVES, RECEIVES))

    def _message(self, msn: int) -> None:
        kind = self.source.choice(("write", "send", "add", "read"))
        if kind == "write":
            content = self.source.randbytes(self.source.randrange(1, SLOT))
            self.memory[msn * SLOT:msn * SLOT + len(content)] = content
            self._cut(Opcode.WRITE, msn, content, va=self.region.addr + msn * SLOT, rkey=self.region.key)
        elif kind == "send":
            content = self.source.randbytes(self.source.randrange(RECEIVES))
            self._cut(Opcode.SEND, msn, content, rqsn=len(self.received))
            self.received.append(content)
        elif kind == "add":
            before = int.from_bytes(self.memory[COUNTER:], sys.byteorder)
            self.memory[COUNTER:] = (before + msn).to_bytes(8, sys.byteorder)
            self.answers[msn] = before.to_bytes(8, "big")
            self._request(Opcode.FETCH_ADD, msn, operand=msn)
        else:
            self.answers[msn] = b""  # the bytes may change until they are fetched: only that it is answered
            self._request(Opcode.READ_REQ, msn)

    def _request(self, op: Opcode, msn: int, **members: int) -> None:
        self.packets.append(self.peer.request(op, msn, length=8, va=self.region.addr + COUNTER, rkey=self.region.key,
                                              rdslot=msn, **members))

    def _cut(self, op: Opcode, msn: int, content: bytes, **members: int) -> None:
        for at in range(0, max(1, len(content)), MTU):
            self.packets.append(self.peer.request(op, msn, offset=at, length=len(content),
                                                  payload=content[at:at + MTU], **members))

    def deliver(self) -> None:
        """Every packet until it is accepted: in disorder within 60 packets, some lost, some repeated."""
        first = self.peer.next_cpsn
        waiting = list(enumerate(self.packets))
        while waiting:
            at = self.source.randrange(min(60, len(waiting)))
            number, data = waiting[at]
            raw = self.peer.packet(data, path=self.source.randrange(4), cpsn=first + number)
            if self.source.random() < 0.2:
                continue
            self.peer.deliver(raw)
            if self.source.random() < 0.2:
                self.peer.deliver(raw)
            if self.source.random() < 0.8:  # else the ACK is lost, and the packet comes again
                del waiting[at]
            if self.source.random() < 0.1:
                self.peer.acknowledge(self.source.randrange(50))
        for _ in range(10):
            self.peer.acknowledge()
            self.peer.step(10_000_000)


class RandomRuns(unittest.TestCase):
    def test_every_message_takes_effect_once_and_in_order(self) -> None:
        for seed in range(RUNS):
            with self.subTest(seed=seed):
                self.judge(Run(seed))

    def judge(self, run: Run) -> None:
        run.deliver()
        assert run.peer.qp is not None
        self.assertEqual(run.peer.naks(), [])
        self.assertEqual(bytes(run.region.data), bytes(run.memory))
        completions = list(run.peer.qp.completions)
        self.assertEqual([(c["wr_id"], c["status"], c["bytes"]) for c in completions],
                         [(i, "SUCCESS", len(content)) for i, content in enumerate(run.received)])
        for i, content in enumerate(run.received):
            self.assertEqual(bytes(run.inbox.data[i * RECEIVES:i * RECEIVES + len(content)]), content)
        responses = run.peer.data(Opcode.READ_RESP, Opcode.ATOMIC_RESP)
        self.assertEqual([r.rdslot for r in responses], list(run.answers))
        for response in responses:
            if response.op == Opcode.ATOMIC_RESP:
                self.assertEqual(response.original.to_bytes(8, "big"), run.answers[response.rdslot])
        self.assertEqual(run.peer.endpoint.held, 0)


if __name__ == "__main__":
    unittest.main()
