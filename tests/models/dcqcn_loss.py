#!/usr/bin/env python3
"""One RoCEv2 flow over a lossy way: go-back-N, DCQCN, and a CNP with every NACK, as event by event model.

Written from the source of ConWeave's ns-3 model (src/point-to-point/model/rdma-hw.cc of
github.com/conweave-project/conweave-ns3: ReceiverCheckSeq, ReceiveAck, cnp_received_mlx and what they schedule) and
independently of core/rocev2, as a check of the preset `conweave`. Nothing but the flow is in it: no queues, no pauses.

  tests/models/dcqcn_loss.py                     goodput in Gbit/s at several losses, median of seven seeds
"""

import heapq
import itertools
import random
import statistics

LINE = 400e9  # bit/s
HOP_NS = 3000.0
PAYLOAD, HEADERS, ACK_BYTES = 4096, 64, 64
NACK_INTERVAL_NS, TIMEOUT_NS = 4000, 4_000_000
ALPHA_NS, DECREASE_NS, INCREASE_NS = 1000, 4000, 300_000
GAIN = 1 / 256
AI, HAI, LEAST = 160e6, 400e6, 100e6  # 10 and 25 Mbit/s at 25 Gbit/s


class Rate:
    """The reaction point. `at` puts an event of this name into the agenda."""

    def __init__(self, at):
        self.at = at
        self.rate = self.target = LINE
        self.alpha, self.stage, self.clock = 1.0, 0, 0
        self.begun = self.marked_alpha = self.marked_rate = False

    def cnp(self):
        self.marked_alpha = self.marked_rate = True
        if not self.begun:
            self.begun, self.marked_alpha = True, False
            self.at(ALPHA_NS, "alpha")
            self.at(DECREASE_NS + 1, "decrease")

    def update_alpha(self):
        self.alpha = (1 - GAIN) * self.alpha + (GAIN if self.marked_alpha else 0)
        self.marked_alpha = False
        self.at(ALPHA_NS, "alpha")

    def decrease(self):
        self.at(DECREASE_NS, "decrease")
        if not self.marked_rate:
            return
        if self.stage != 0:
            self.target = self.rate
        self.rate = max(LEAST, self.rate * (1 - self.alpha / 2))
        self.stage, self.marked_rate = 0, False
        self.clock += 1
        self.at(INCREASE_NS, "increase", self.clock)

    def increase(self, clock):
        if clock != self.clock:
            return
        self.at(INCREASE_NS, "increase", clock)
        if self.stage > 0:
            self.target = min(LINE, self.target + (AI if self.stage == 1 else HAI))
        self.rate = (self.rate + self.target) / 2
        self.stage += 1


def goodput_gbps(loss, seed, size=100 * 2**20):
    rng = random.Random(seed)
    agenda, order, now = [], itertools.count(), 0.0

    def at(delay, name, argument=None):
        heapq.heappush(agenda, (now + delay, next(order), name, argument))

    packets = -(-size // PAYLOAD)
    serial = (PAYLOAD + HEADERS) * 8 / LINE * 1e9
    rate = Rate(at)
    una = following = timer = 0
    free_at, waiting = 0.0, True  # the sender
    expected, nacked, nack_again = 0, -1, 0.0  # the receiver
    at(0, "send")

    def send_when_free():
        nonlocal waiting
        if not waiting and following < packets:
            waiting = True
            at(max(0.0, free_at - now), "send")

    def restart_timer():
        nonlocal timer
        timer += 1
        at(TIMEOUT_NS, "timeout", timer)

    while agenda:
        now, _, name, argument = heapq.heappop(agenda)
        if name == "send":
            waiting = False
            if following >= packets:
                continue
            free_at = now + max(serial, (PAYLOAD + HEADERS) * 8 / rate.rate * 1e9)
            if rng.random() >= loss:
                at(2 * (serial + HOP_NS), "data", following)
            following += 1
            restart_timer()
            send_when_free()
        elif name == "data":
            nack = argument > expected
            if nack and nacked == expected and now < nack_again:
                continue
            if nack:
                nacked, nack_again = expected, now + NACK_INTERVAL_NS
            elif argument == expected:
                expected += 1
            if rng.random() >= loss:
                at(2 * (ACK_BYTES * 8 / LINE * 1e9 + HOP_NS), "answer", (expected, nack))
        elif name == "answer":
            una = max(una, argument[0])
            following = max(following, una)
            if una == packets:
                return size * 8 / now
            if following > una:
                restart_timer()
            if argument[1]:
                following = una
                rate.cnp()
            send_when_free()
        elif name == "timeout":
            if argument == timer:
                following = una
                restart_timer()
                send_when_free()
        elif name == "alpha":
            rate.update_alpha()
        elif name == "decrease":
            rate.decrease()
        else:
            rate.increase(argument)
    raise AssertionError("the flow does not end")


def median_gbps(loss, seeds=range(1, 8)):
    return statistics.median(goodput_gbps(loss, seed) for seed in seeds)


if __name__ == "__main__":
    for share in (1e-4, 1e-3, 3e-3, 1e-2):
        print(f"{share:g}: {median_gbps(share):.1f}")
