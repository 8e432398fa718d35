"""Two hosts with four links between them (network namespaces, four veth pairs): the unmodified programs with loss on
top, and links that fail and return during a run."""

import contextlib
import json
import os
import subprocess
import time
import unittest

import support
from support import Assertions, Pair, ip, network_namespaces

PLANES = 4
MESSAGE = 65536  # bytes; less than one message is no progress: probes and acknowledgements pass even in a stall


class TwoHosts:
    """Namespaces of this test only; their names carry the process id."""

    def __init__(self, mtu=1500):
        self.names = [f"mroce-{os.getpid()}-{side}" for side in "ab"]
        self.mtu = mtu

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(network_namespaces(*self.names))
            self.cable()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def cable(self):
        a, b = self.names
        for plane in range(PLANES):
            ip("-n", a, "link", "add", f"p{plane}", "mtu", self.mtu, "type", "veth", "peer", "name", f"p{plane}",
               "netns", b)
            ip("-n", b, "link", "set", f"p{plane}", "mtu", self.mtu)
            for side, name in enumerate(self.names):
                ip("-n", name, "addr", "add", f"10.99.{plane}.{side + 1}/24", "dev", f"p{plane}")
                ip("-n", name, "link", "set", f"p{plane}", "up")

    def prefix(self, side):
        return ["ip", "netns", "exec", self.names[side]]

    def link(self, side, plane, state):
        ip("-n", self.names[side], "link", "set", f"p{plane}", state)

    def is_up(self, side, plane):
        """Whether the kernel has opened the link for traffic. Of a link that returns it may take a second to say so: it
        handles such events once a second."""
        text = subprocess.check_output(["ip", "-n", self.names[side], "-j", "link", "show", f"p{plane}"])
        return json.loads(text)[0]["operstate"] == "UP"

    def received(self, side, unit="packets"):
        """What the interfaces have received, one figure a plane."""
        text = subprocess.check_output(["ip", "-n", self.names[side], "-s", "-j", "link", "show"])
        counts = {link["ifname"]: link["stats64"]["rx"][unit] for link in json.loads(text)}
        return [counts[f"p{plane}"] for plane in range(PLANES)]


class Watch:
    """Samples what host 1 receives, as often as it can. A stall lasts from the first to the last sample with the same
    total, so that a watcher who was kept from the processor sees none that was not there."""

    def __init__(self, hosts, pair):
        self.hosts, self.pair = hosts, pair
        self.longest_stall = 0.0
        self.total, self.since = -MESSAGE, 0.0
        self.sample()

    def sample(self):
        if not self.pair.client.alive():
            raise AssertionError(f"the client ended under observation\n{self.pair.client.log()}")
        before = time.monotonic()
        planes = self.hosts.received(1, "bytes")
        if sum(planes) - self.total >= MESSAGE:
            self.total, self.since = sum(planes), time.monotonic()
        else:
            self.longest_stall = max(self.longest_stall, before - self.since)
        return planes

    def through(self, seconds):
        """Observes for so long, and longer if that is needed for a hundred messages."""
        start, first = time.monotonic(), self.total
        self.until(lambda _: time.monotonic() - start >= seconds and self.total - first >= 100 * MESSAGE,
                   "a hundred messages")

    def until(self, condition, what):
        """Observes until the condition holds for the planes' bytes; returns the seconds that this took."""
        start = time.monotonic()
        while not condition(self.sample()):
            if time.monotonic() - start > 30:
                raise AssertionError(f"{what} did not happen within 30 s")
        return time.monotonic() - start

    def until_data_on(self, plane):
        first = self.sample()[plane]
        return self.until(lambda planes: planes[plane] >= first + MESSAGE, f"data on plane {plane}")


def between(hosts, program, arguments, options=(), user_prefix=()):
    """A program of perftest or ibverbs-utils, server on host 1, client on host 0."""
    port = support.free_tcp_port()
    prefix = [[*hosts.prefix(side), *user_prefix] for side in (0, 1)]
    index = [support.gid_index(f"10.99.0.{side + 1}", prefix[side]) for side in (0, 1)]
    index_flag, more = ("-g", []) if program.startswith("ibv_") else ("-x", ["-F"])
    common = [program, "-d", "mroce0", "-p", port, *more, *arguments]
    return Pair([*common, index_flag, index[1]], [*common, index_flag, index[0], "10.99.0.2"], port, options, options,
                server_prefix=prefix[1], client_prefix=prefix[0])


def write_between(hosts, seconds, options=()):
    return between(hosts, "ib_write_bw", ["-s", MESSAGE, "-D", seconds], options)


@unittest.skipUnless(support.is_root(), "network namespaces need root")
@support.needs_network_namespaces
class ProgramMatrix(Assertions):
    """program, arguments; each run is long enough for all that assert_pair_used() says."""

    PROGRAMS = (
        ("ib_write_bw", ["-s", "1M", "-q", "4", "-n", "50"]),
        ("ib_read_bw", ["-n", "1000"]),
        ("ib_send_bw", ["-r", "128", "-n", "1000"]),
        ("ib_atomic_bw", ["-A", "FETCH_AND_ADD", "-n", "3000"]),
        ("ib_write_lat", ["-s", "2", "-n", "1200"]),
        ("ib_write_lat", ["-s", "65536", "-n", "100"]),
        ("ibv_rc_pingpong", ["-c", "-n", "8000"]),
        ("ibv_srq_pingpong", ["-c", "-n", "8000"]),
    )

    def check(self, user):
        options = ["--loss", "1%", "--set", "seed=20261"]
        with support.user(user) as prefix, TwoHosts() as hosts:
            for program, arguments in self.PROGRAMS:
                with self.subTest(program=program, arguments=arguments, user=user):
                    with between(hosts, program, arguments, options, prefix) as pair:
                        pair.finish()
                        # Small packets from a busy host: a plane whose losses met delays has a small window for a while.
                        self.assert_pair_used(pair, 0.01, set(range(PLANES)), share=0.01)

    def test_everything_passes_at_1_percent_loss(self):
        self.check("root")

    def test_everything_passes_at_1_percent_loss_for_an_ordinary_user(self):
        self.check("nobody")


@unittest.skipUnless(support.is_root(), "network namespaces need root")
@support.needs_network_namespaces
class Planes(Assertions):
    def test_one_flow_uses_all_four_links(self):
        for mtu in (1500, 9000):
            with self.subTest(mtu=mtu), TwoHosts(mtu) as hosts, write_between(hosts, 3) as pair:
                pair.finish()
                connection = support.busiest(pair.client.stats()["connections"])
                self.assertEqual(connection["payload_mtu_bytes"], 4096 if mtu == 9000 else 1408)
                self.assertEqual({path["plane"] for path in connection["paths"]}, set(range(PLANES)))
                self.assert_paths_share(connection, 0.1)

    def test_a_link_fails_and_returns_while_data_flows(self):
        with TwoHosts() as hosts, write_between(hosts, 6) as pair:
            self.wait_for_packets(hosts, pair, 2, 1000)
            watch = Watch(hosts, pair)
            hosts.link(0, 2, "down")
            watch.through(1)
            hosts.link(0, 2, "up")
            kernel_took = watch.until(lambda _: hosts.is_up(0, 2) and hosts.is_up(1, 2), "the kernel opening the link")
            returned_after = watch.until_data_on(2)
            watch.through(1)
            pair.finish()
            print(f"longest stall {watch.longest_stall * 1e3:.0f} ms; the kernel opened the link after "
                  f"{kernel_took * 1e3:.0f} ms, it carried data {returned_after * 1e3:.0f} ms later")
            self.assertLess(watch.longest_stall, 1)
            self.assertLess(returned_after, 1)
            for process in (pair.client.stats(), pair.server.stats()):
                self.assertEqual(process["counters"]["connections_failed"], 0)
            self.assertIn("BW average", pair.client.log())

    def test_all_links_but_one_fail(self):
        with TwoHosts() as hosts, write_between(hosts, 6) as pair:
            self.wait_for_packets(hosts, pair, 3, 1000)
            for plane in (0, 1, 2):
                hosts.link(1, plane, "down")
            before = hosts.received(1)[3]
            support.wait_until(lambda: hosts.received(1)[3] > before + 1000, "data on the last plane")
            # perftest's own TCP connection runs over plane 0.
            hosts.link(1, 0, "up")
            pair.finish()

    def wait_for_packets(self, hosts, pair, plane, at_least):
        def arrived():
            self.assertTrue(pair.client.alive(), pair.client.log())
            return hosts.received(1)[plane] >= at_least
        support.wait_until(arrived, f"packet {at_least} on plane {plane}")


if __name__ == "__main__":
    unittest.main()
