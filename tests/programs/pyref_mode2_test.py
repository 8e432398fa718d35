"""Mode 2 between the two implementations: an unmodified ibv_rc_pingpong on the drop-in library, and tests/pyref.

tests/pyref was written from docs/spec alone, with ciphers of its own. Both roles of the handshake, with and without a
pre-shared key, over a bad network, with updates of the keys, and through RETRY.
"""

import contextlib
import os
import pathlib
import random
import socket
import sys
import unittest

import support
from support import Running, scratch_folder

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from pyref.codec import encode  # noqa: E402
from pyref.codepoints import Flag, PacketType  # noqa: E402
from pyref.identity import POLICIES, OwnEnd, Security  # noqa: E402
from pyref.initiator import own_parameters  # noqa: E402
from pyref.packets import Datagram, Header  # noqa: E402
from pyref.pingpong import PeerFailed, Pingpong  # noqa: E402

ADDRESS, OURS = "127.0.0.1", "127.0.0.3"
BASE_PORT = 61440
ROUNDS, SIZE = 60, 3000
KEY_UPDATE = 25
PSK = bytes(range(32))
BAD_NETWORK = ("--impair", "loss=2%,reorder=3%:200us,duplicate=4%,corrupt=4%")


def settings(policy, key_file=None):
    words = ["--set", f"security={policy}"]
    return words + (["--set", f"key_file={key_file}"] if key_file else [])


class Mode2(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder = stack.enter_context(scratch_folder())
        self.stack = stack

    def key_file(self, key=PSK):
        path = self.folder / "key"
        path.touch(mode=0o600)
        path.write_bytes(key)
        return path

    def peer(self, policy="require", psk=None):
        return self.stack.enter_context(
            Pingpong(OURS, BASE_PORT, Security(POLICIES[policy], psk), KEY_UPDATE, SIZE))

    def program(self, port, options, *where):
        words = ["ibv_rc_pingpong", "-d", "mroce0", "-g", support.gid_index(ADDRESS), "-p", port, "-n", ROUNDS,
                 "-s", SIZE, *where]
        running = Running(words, options, folder=self.folder)
        self.stack.callback(running.kill)
        return running

    def call(self, peer, options, before=lambda: None):
        """The program is the server, and this end speaks first: it is the initiator."""
        port = support.free_tcp_port()
        program = self.program(port, options)
        program.wait_for_listener(port)
        peer.call(ADDRESS, port)
        before()
        peer.as_client(ROUNDS)
        peer.finish(lambda: not program.alive())
        self.assertEqual(program.wait(), 0, program.log())
        return program

    def answer(self, peer, options):
        """The program is the client and the initiator."""
        with socket.create_server((OURS, 0)) as listener:
            program = self.program(listener.getsockname()[1], options, OURS)
            peer.answer(listener)
            peer.as_server(ROUNDS)
            peer.finish(lambda: not program.alive())
        self.assertEqual(program.wait(), 0, program.log())
        return program

    def check_keys(self, peer, mode=2):
        self.assertEqual([c.mode for c in peer.connections_ever], [mode])
        if mode == 2:
            self.assertGreater(peer.connections_ever[0].sealer.updates, 2)

    def test_this_end_as_initiator(self):
        peer = self.peer()
        self.call(peer, settings("require"))
        self.check_keys(peer)

    def test_this_end_as_acceptor(self):
        peer = self.peer()
        self.answer(peer, settings("require"))
        self.check_keys(peer)

    def test_both_roles_with_a_pre_shared_key_over_a_bad_network(self):
        options = [*settings("require", self.key_file()), *BAD_NETWORK]
        peer = self.peer(psk=PSK)
        self.call(peer, options)
        self.check_keys(peer)
        peer.responder.end()
        peer = self.peer(psk=PSK)
        self.answer(peer, options)
        self.check_keys(peer)
        self.assertGreater(peer.endpoint.counters["drop_tag"] + peer.endpoint.counters["drop_crc"]
                           + peer.endpoint.counters["drop_replay"], 0)

    def test_two_that_prefer_mode_2_use_it(self):
        peer = self.peer("prefer")
        self.call(peer, settings("prefer"))
        self.check_keys(peer)

    def test_who_prefers_it_meets_who_has_it_not(self):
        for ours, theirs in (("prefer", "off"), ("off", "prefer")):
            with self.subTest(ours=ours):
                peer = self.peer(ours)
                self.call(peer, settings(theirs))
                self.check_keys(peer, 0)
                peer.responder.end()

    def test_another_pre_shared_key_gives_no_connection(self):
        port = support.free_tcp_port()
        program = self.program(port, settings("require", self.key_file(bytes(32))))
        program.wait_for_listener(port)
        peer = self.peer(psk=PSK)
        peer.call(ADDRESS, port)
        with self.assertRaisesRegex(PeerFailed, "RETRY_EXC_ERR"):
            peer.as_client(1)
        self.assertEqual(peer.connections_ever, [])

    def flood(self, peer):
        """INITs in mode 2 of so many endpoints that the program asks for cookies."""
        source = random.Random(1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind((OURS, 0))
            for _ in range(70):
                own = OwnEnd.make(source.getrandbits(32) | 1, source)
                body = own_parameters(peer.endpoint, own)
                body.endpoint_id, body.listen_port, body.security = os.urandom(16), sender.getsockname()[1], 4
                body.nonce, body.payload_mtu, body.cpsn_window = own.nonce, 1024, 128
                body.key_share = own.share(peer.endpoint.security)
                sender.sendto(encode(Datagram(Header(PacketType.INIT, Flag.EXT), body)), peer.peer)

    def test_a_retry_is_obeyed(self):
        peer = self.peer()
        self.call(peer, settings("require"), lambda: self.flood(peer))
        self.check_keys(peer)
        self.assertGreaterEqual(peer.endpoint.counters["retries"], 1)


if __name__ == "__main__":
    unittest.main()
