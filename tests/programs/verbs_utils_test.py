"""The programs of ibverbs-utils, unmodified, between two processes over 127.0.0.1."""

import subprocess
import unittest

import support
from support import MROCE, Assertions, Pair, environment


def pingpong(program, arguments, options):
    port = support.free_tcp_port()
    common = [program, "-d", "mroce0", "-g", support.gid_index("127.0.0.1"), "-p", port, *arguments]
    return Pair(common, [*common, "127.0.0.1"], port, options, options)


class Pingpong(Assertions):
    def check(self, program, arguments, options=()):
        with pingpong(program, arguments, options) as pair:
            pair.finish()
            self.assert_library_is_ours(pair.server_libraries)
            self.assertIn("bytes in", pair.client.log())
            return pair.client.stats(), pair.server.stats()

    def test_rc_validates_what_it_receives(self):
        self.check("ibv_rc_pingpong", ["-c"])

    def test_rc_validates_what_it_receives_over_a_bad_network(self):
        client, server = self.check("ibv_rc_pingpong", ["-c", "-s", "65536"],
                                    ["--impair", "loss=2%,reorder=5%:200us,duplicate=1%,corrupt=0.5%"])
        self.assertGreater(client["impairment"]["out"]["dropped"] + server["impairment"]["out"]["dropped"], 0)

    def test_rc_sleeping_on_events(self):
        self.check("ibv_rc_pingpong", ["-e", "-n", "500"])

    def test_srq_with_16_queue_pairs(self):
        self.check("ibv_srq_pingpong", [])

    def test_srq_with_16_queue_pairs_at_5_percent_loss(self):
        self.check("ibv_srq_pingpong", ["-n", "200"], ["--loss", "5"])

    def test_srq_sleeping_on_events(self):
        self.check("ibv_srq_pingpong", ["-e", "-n", "200"])


class Listing(unittest.TestCase):
    def test_devinfo_shows_the_port_active_and_the_gids(self):
        result = subprocess.run([MROCE, "run", "--", "ibv_devinfo", "-v"], capture_output=True, text=True, timeout=60,
                                env=environment(), check=True)
        self.assertIn("hca_id:\tmroce0", result.stdout)
        self.assertIn("PORT_ACTIVE", result.stdout)
        self.assertIn("::ffff:127.0.0.1", result.stdout)

    @support.needs_mounts
    def test_devinfo_and_sysfs_agree_on_the_guid(self):
        script = "ibv_devinfo | awk '/node_guid/ { print $2 }'; cat /sys/class/infiniband/mroce0/node_guid"
        result = subprocess.run([MROCE, "run", "--", "sh", "-c", script], capture_output=True, text=True, timeout=60,
                                env=environment(), check=True)
        first, second = result.stdout.split()
        self.assertEqual(first, second)


if __name__ == "__main__":
    unittest.main()
