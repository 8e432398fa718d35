"""The distribution's perftest, unmodified, over four paths: with and without loss, and with what the statistics say."""

import unittest

import support
from support import Assertions, perftest

WRITE_PACKETS = 4000  # enough of them that each path's share and the drops can be judged


class PerftestMatrix(Assertions):
    """name, program, arguments"""

    PROGRAMS = (
        ("write 1 MiB, 4 queue pairs", "ib_write_bw", ["-s", str(1 << 20), "-q", "4", "-n", "200"]),
        ("read 64 KiB", "ib_read_bw", ["-s", "65536", "-n", "4000"]),
        ("send 64 KiB, 128 receives", "ib_send_bw", ["-s", "65536", "-r", "128", "-n", "4000"]),
        ("fetch and add", "ib_atomic_bw", ["-A", "FETCH_AND_ADD", "-n", "5000"]),
        ("compare and swap", "ib_atomic_bw", ["-A", "CMP_AND_SWAP", "-n", "5000"]),
        ("latency of a 2-byte write", "ib_write_lat", ["-s", "2", "-n", "1000"]),
        ("latency of a 64 KiB write", "ib_write_lat", ["-s", "65536", "-n", "500"]),
        ("latency of a send", "ib_send_lat", ["-s", "64", "-n", "500"]),
    )

    def check(self, loss_percent):
        for name, program, arguments in self.PROGRAMS:
            with self.subTest(program=name, loss=loss_percent):
                shares = self.run_once(program, arguments, loss_percent)
                self.assertGreater(min(shares, default=1), 0.1, "a path was left out")

    def run_once(self, program, arguments, loss_percent):
        # A fixed seed: drops are random, the test is not.
        options = ["--paths", "4", "--set", "seed=20261", *(["--loss", str(loss_percent)] if loss_percent else [])]
        with perftest(program, arguments, options) as pair:
            pair.finish()
            self.assert_library_is_ours(pair.server_libraries)
            return self.judge(pair, loss_percent)

    def judge(self, pair, loss_percent):
        """Drops as ordered, repaired by retransmissions. Returns the shares of the paths of long flows."""
        shares = []
        for process in (pair.client.stats(), pair.server.stats()):
            self.assert_drops_match(process["impairment"]["out"], loss_percent / 100)
            self.assertEqual(process["counters"]["connections_failed"], 0)
            for connection in process["connections"]:
                sent = connection["counters"]["data_packets_sent"]
                if loss_percent >= 1 and sent > WRITE_PACKETS:
                    self.assertGreater(connection["counters"]["retransmissions"], 0)
                if sent > WRITE_PACKETS:
                    self.assertEqual(len(connection["paths"]), 4)
                    shares += [path["counters"]["sent"] / sent for path in connection["paths"]]
        return shares

    def test_everything_passes_without_loss(self):
        self.check(0)

    def test_everything_passes_at_1_percent_loss(self):
        self.check(1)

    def test_everything_passes_at_10_percent_loss(self):
        self.check(10)


class Goodput(Assertions):
    def test_a_write_carries_its_payload_once_and_no_more(self):
        with perftest("ib_write_bw", ["-s", str(1 << 20), "-n", "200"], ["--loss", "1", "--set", "seed=20262"]) as pair:
            pair.finish()
            sent = sum(c["counters"]["payload_bytes_sent"] for c in pair.client.stats()["connections"])
            received = sum(c["counters"]["payload_bytes_received"] for c in pair.server.stats()["connections"])
        self.assertEqual(sent, received)
        self.assertGreaterEqual(sent, 200 << 20)

    def test_ordinary_users_get_the_same(self):
        if not support.is_root():
            self.skipTest("becoming somebody else needs root")
        with support.scratch_folder() as folder:
            mroce = support.install_copy(folder)
            folder.chmod(0o777)
            port = support.free_tcp_port()
            common = ["ib_write_bw", "-d", "mroce0", "-x", support.gid_index("127.0.0.1"), "-p", port, "-F", "-n", "500"]
            ours, support.MROCE = support.MROCE, mroce
            try:
                server = support.Running(common, ["--loss", "1"], support.as_nobody([]), folder, "server")
                try:
                    server.wait_for_listener(port)
                    client = support.Running([*common, "127.0.0.1"], ["--loss", "1"], support.as_nobody([]), folder, "client")
                    self.assertEqual(client.wait(), 0, client.log())
                    self.assertEqual(server.wait(), 0, server.log())
                    self.assert_drops_match(client.stats()["impairment"]["out"], 0.01)
                finally:
                    server.kill()
            finally:
                support.MROCE = ours


if __name__ == "__main__":
    unittest.main()
