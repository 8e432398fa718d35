"""Two hosts with four links between them (network namespaces, four veth pairs); links fail and return during a run."""

import contextlib
import json
import os
import subprocess
import unittest

import support
from support import Assertions, Pair, ip, network_namespaces

PLANES = 4


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

    def received(self, side, plane):
        """Packets that the interface has received."""
        text = subprocess.check_output(["ip", "-n", self.names[side], "-s", "-j", "link", "show", f"p{plane}"])
        return json.loads(text)[0]["stats64"]["rx"]["packets"]


def write_between(hosts, seconds, options=()):
    port = support.free_tcp_port()
    index = [support.gid_index(f"10.99.0.{side + 1}", hosts.prefix(side)) for side in (0, 1)]
    common = ["ib_write_bw", "-d", "mroce0", "-p", port, "-F", "-s", "65536", "-D", seconds]
    return Pair([*common, "-x", index[1]], [*common, "-x", index[0], "10.99.0.2"], port, options, options,
                server_prefix=hosts.prefix(1), client_prefix=hosts.prefix(0))


@unittest.skipUnless(support.is_root(), "network namespaces need root")
@support.needs_network_namespaces
class Planes(Assertions):
    def test_one_flow_uses_all_four_links(self):
        for mtu in (1500, 9000):
            with self.subTest(mtu=mtu), TwoHosts(mtu) as hosts, write_between(hosts, 3) as pair:
                pair.finish()
                connection = pair.client.stats()["connections"][0]
                self.assertEqual(connection["payload_mtu_bytes"], 4096 if mtu == 9000 else 1408)
                self.assertEqual({path["plane"] for path in connection["paths"]}, set(range(PLANES)))
                self.assert_paths_share(connection, 0.1)

    def test_a_link_fails_and_returns_while_data_flows(self):
        with TwoHosts() as hosts, write_between(hosts, 8) as pair:
            self.wait_for_packets(hosts, pair, 2, 1000)
            hosts.link(0, 2, "down")
            others = hosts.received(1, 1)
            support.wait_until(lambda: hosts.received(1, 1) > others + 1000, "data on plane 1 while plane 2 is down")
            hosts.link(0, 2, "up")
            self.wait_for_packets(hosts, pair, 2, hosts.received(1, 2) + 1000)
            pair.finish()
            counters = pair.client.stats()["counters"]
            self.assertEqual(counters["connections_failed"], 0)
            self.assertIn("BW average", pair.client.log())

    def test_all_links_but_one_fail(self):
        with TwoHosts() as hosts, write_between(hosts, 6) as pair:
            self.wait_for_packets(hosts, pair, 3, 1000)
            for plane in (0, 1, 2):
                hosts.link(1, plane, "down")
            before = hosts.received(1, 3)
            support.wait_until(lambda: hosts.received(1, 3) > before + 1000, "data on the last plane")
            # perftest's own TCP connection runs over plane 0.
            hosts.link(1, 0, "up")
            pair.finish()

    def wait_for_packets(self, hosts, pair, plane, at_least):
        def arrived():
            self.assertTrue(pair.client.alive(), pair.client.log())
            return hosts.received(1, plane) >= at_least
        support.wait_until(arrived, f"packet {at_least} on plane {plane}")


if __name__ == "__main__":
    unittest.main()
