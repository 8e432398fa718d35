"""The distribution's perftest, unmodified, over four paths: with and without loss, and with what the statistics say."""

import unittest

import support
from support import Assertions, perftest


class PerftestMatrix(Assertions):
    """name, program, arguments; each run is long enough for all that assert_pair_used() says."""

    PROGRAMS = (
        ("write 1 MiB, 4 queue pairs", "ib_write_bw", ["-s", str(1 << 20), "-q", "4", "-n", "200"]),
        ("read 64 KiB", "ib_read_bw", ["-s", "65536", "-n", "6000"]),
        ("send 64 KiB, 128 receives", "ib_send_bw", ["-s", "65536", "-r", "128", "-n", "6000"]),
        ("fetch and add", "ib_atomic_bw", ["-A", "FETCH_AND_ADD", "-n", "10000"]),
        ("compare and swap", "ib_atomic_bw", ["-A", "CMP_AND_SWAP", "-n", "10000"]),
        ("latency of a 2-byte write", "ib_write_lat", ["-s", "2", "-n", "4000"]),
        ("latency of a 64 KiB write", "ib_write_lat", ["-s", "65536", "-n", "1000"]),
        ("latency of a send", "ib_send_lat", ["-s", "64", "-n", "4000"]),
    )

    def check(self, loss_percent, user="root"):
        # A fixed seed: drops are random, the test is not.
        options = ["--paths", "4", "--set", "seed=20261", *(["--loss", str(loss_percent)] if loss_percent else [])]
        with support.user(user) as prefix:
            for name, program, arguments in self.PROGRAMS:
                with self.subTest(program=name, loss=loss_percent, user=user):
                    with perftest(program, arguments, options, prefix) as pair:
                        pair.finish()
                        self.assert_pair_used(pair, loss_percent / 100)

    def test_everything_passes_without_loss(self):
        self.check(0)

    def test_everything_passes_at_1_percent_loss(self):
        self.check(1)

    def test_everything_passes_at_10_percent_loss(self):
        self.check(10)

    @support.needs_root
    def test_everything_passes_at_1_percent_loss_for_an_ordinary_user(self):
        self.check(1, "nobody")


class Goodput(Assertions):
    def test_a_write_carries_its_payload_once_and_no_more(self):
        with perftest("ib_write_bw", ["-s", str(1 << 20), "-n", "200"], ["--loss", "1", "--set", "seed=20262"]) as pair:
            pair.finish()
            sent = sum(c["counters"]["payload_bytes_sent"] for c in pair.client.stats()["connections"])
            received = sum(c["counters"]["payload_bytes_received"] for c in pair.server.stats()["connections"])
        self.assertEqual(sent, received)
        self.assertGreaterEqual(sent, 200 << 20)


if __name__ == "__main__":
    unittest.main()
