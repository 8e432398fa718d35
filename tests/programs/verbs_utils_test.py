"""The programs of ibverbs-utils, unmodified, between two processes over 127.0.0.1."""

import subprocess
import unittest

import support
from support import MROCE, Assertions, environment, pingpong


# At 10 % loss one challenge in five is lost, and its repetitions come after 2, 4, 8 … ms: a run has to be much longer
# than it may take until all paths are there.
ROUNDS = "8000"


class Pingpong(Assertions):
    """program, arguments; each run is long enough for all that assert_pair_used() says."""

    PROGRAMS = (
        ("ibv_rc_pingpong", ["-c", "-n", ROUNDS]),
        ("ibv_rc_pingpong", ["-e", "-c", "-n", ROUNDS]),
        ("ibv_srq_pingpong", ["-c", "-n", ROUNDS]),
        ("ibv_srq_pingpong", ["-e", "-c", "-n", ROUNDS]),
    )

    def check(self, loss_percent, user="root"):
        options = ["--paths", "4", "--set", "seed=20261", *(["--loss", str(loss_percent)] if loss_percent else [])]
        with support.user(user) as prefix:
            for program, arguments in self.PROGRAMS:
                with self.subTest(program=program, arguments=arguments, loss=loss_percent, user=user):
                    with pingpong(program, arguments, options, prefix) as pair:
                        pair.finish()
                        self.assert_pair_used(pair, loss_percent / 100)
                        self.assertIn("bytes in", pair.client.log())

    def test_pingpongs_validate_what_they_receive_without_loss(self):
        self.check(0)

    def test_pingpongs_validate_what_they_receive_at_1_percent_loss(self):
        self.check(1)

    def test_pingpongs_validate_what_they_receive_at_10_percent_loss(self):
        self.check(10)

    @support.needs_root
    def test_pingpongs_validate_what_they_receive_at_1_percent_loss_for_an_ordinary_user(self):
        self.check(1, "nobody")

    def test_rc_validates_what_it_receives_over_a_bad_network(self):
        bad = ["--impair", "loss=2%,reorder=5%:200us,duplicate=1%,corrupt=0.5%", "--set", "seed=20261"]
        with pingpong("ibv_rc_pingpong", ["-c", "-s", "65536"], bad) as pair:
            pair.finish()
            for process in (pair.client.stats(), pair.server.stats()):
                out = process["impairment"]["out"]
                for what in ("dropped", "reordered", "duplicated", "corrupted"):
                    self.assertGreater(out[what], 0, what)


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
