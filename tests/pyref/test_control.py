"""The control protocol over TCP, with the packets of a real UDP socket on loopback."""

import json
import socket
import unittest
from typing import Any, Callable

from pyref.codec import decode, encode
from pyref.codepoints import MAGIC, Drop, PacketType
from pyref.control import Control
from pyref.packets import Datagram, Header, Init, Port
from pyref.responder import Responder
from pyref.small_codings import wire_address

BASE_PORT = 27000  # of this test alone


class ControlProtocol(unittest.TestCase):
    def setUp(self) -> None:
        self.control = Control(Responder("127.0.0.1", BASE_PORT), "127.0.0.1", 0)
        self.addCleanup(self.control.close)
        self.client = socket.create_connection(self.control.listener.getsockname())
        self.addCleanup(self.client.close)
        self.client.setblocking(False)
        self.received = b""

    def until(self, done: Callable[[], Any]) -> Any:
        """Turn the loop until something is there."""
        for _ in range(1000):
            result = done()
            if result:
                return result
            self.control.turn(0.05)
        self.fail("nothing came")

    def _line(self) -> bytes:
        try:
            self.received += self.client.recv(65536)
        except BlockingIOError:
            pass
        line, end, rest = self.received.partition(b"\n")
        if not end:
            return b""
        self.received = rest
        return line

    def raw(self, line: bytes) -> dict[str, Any]:
        self.client.sendall(line + b"\n")
        return json.loads(self.until(self._line))

    def ask(self, cmd: str, **members: Any) -> dict[str, Any]:
        return self.raw(json.dumps({"cmd": cmd, **members}).encode())

    def good(self, cmd: str, **members: Any) -> dict[str, Any]:
        answer = self.ask(cmd, **members)
        self.assertTrue(answer.pop("ok"), answer)
        return answer

    def test_the_example_of_the_document(self) -> None:
        self.assertEqual(self.good("hello", protocol=1)["protocol"], 1)
        started = self.good("start")
        self.assertEqual((started["address"], started["planes"]), ("127.0.0.1", 1))
        self.assertEqual(started["port"], BASE_PORT + started["slot"])
        region = self.good("create_mr", length=8192, access=["local_write", "remote_write"])
        self.assertTrue(region["addr"].startswith("0x"))
        qp = self.good("create_qp", max_send_wr=64, max_recv_wr=64)
        self.assertEqual(qp["qpn"] >> 16, started["slot"])
        self.good("connect_qp", qp=qp["qp"], remote_address="127.0.0.2", remote_qpn=65552, sq_psn=4660, rq_psn=4660)
        self.assertEqual(self.good("query_qp", qp=qp["qp"])["state"], "rts")
        self.good("write_memory", mr=region["mr"], offset=8190, bytes="0aff")
        self.assertEqual(self.good("read_memory", mr=region["mr"], offset=8189, length=3)["bytes"], "000aff")
        self.good("post_recv", qp=qp["qp"], wr_id=5, mr=region["mr"], offset=0, length=100)
        self.good("post_send", qp=qp["qp"], wr_id=6, op="write", mr=region["mr"], offset=0, length=1,
                  remote_addr="0x1000", rkey=1)
        self.good("modify_qp", qp=qp["qp"], state="err")
        self.assertEqual([(c["wr_id"], c["queue"], c["status"]) for c in self.good("poll", qp=qp["qp"])["completions"]],
                         [(6, "send", "WR_FLUSH_ERR"), (5, "recv", "WR_FLUSH_ERR")])
        self.good("destroy_qp", qp=qp["qp"])
        self.good("stop")
        self.assertFalse(self.ask("query_qp", qp=qp["qp"])["ok"])

    def test_a_limit_that_it_does_not_know_is_unsupported(self) -> None:
        answer = self.ask("start", limits={"max_payload": 1024, "key_max_packets": 20})
        self.assertEqual((answer["ok"], answer.get("unsupported")), (False, True))
        self.assertIn("key_max_packets", answer["error"])
        self.assertFalse(self.ask("stop")["ok"], "nothing was started")

    def test_a_handshake_crosses_the_network_and_stop_says_close(self) -> None:
        started = self.good("start", limits={"max_payload": 1024})
        peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(peer.close)
        peer.bind(("127.0.0.1", 0))
        peer.setblocking(False)
        init = Init(MAGIC, scid=7, endpoint_id=bytes(16), listen_port=peer.getsockname()[1], payload_mtu=4096,
                    max_paths=2, cpsn_window=64, receive_buffer=1 << 20, ports=[Port(wire_address("127.0.0.1"))],
                    size=4156)
        peer.sendto(encode(Datagram(Header(PacketType.INIT), init)), ("127.0.0.1", started["port"]))
        answer = self.until(lambda: self._datagram(peer))
        self.assertEqual((answer.header.dcid, answer.body.payload_mtu, answer.body.size), (7, 1024, 4156))
        self.client.sendall(b'{"cmd":"stop"}\n')
        closing = self.until(lambda: self._datagram(peer))
        self.assertEqual(closing.header.type, PacketType.CLOSE)
        ack = Datagram(Header(PacketType.CLOSE_ACK, dcid=answer.body.scid), closing.body)
        peer.sendto(encode(ack), ("127.0.0.1", started["port"]))
        self.assertEqual(json.loads(self.until(self._line)), {"ok": True})

    @staticmethod
    def _datagram(peer: socket.socket) -> Datagram | None:
        try:
            return decode(peer.recv(65536))
        except (BlockingIOError, Drop):
            return None

    def test_bad_requests_are_answered_with_a_sentence(self) -> None:
        for line in (b"", b"[]", b"nonsense", b'{"cmd":5}', b"\xff", b"[" * 5000, b'{"cmd":"create_mr"}',
                     b'{"cmd":"hello","protocol":2}', b'{"cmd":"start","limits":{"max_paths":0}}'):
            answer = self.raw(line)
            self.assertFalse(answer["ok"], line)
            self.assertTrue(answer["error"])
        self.assertTrue(self.ask("create_srq", max_wr=1)["unsupported"])
        self.assertTrue(self.ask("nothing of the kind")["unsupported"])
        self.good("start")
        for cmd, members in (("create_mr", {"length": -1, "access": []}), ("create_mr", {"length": 1, "access": ["x"]}),
                             ("read_memory", {"mr": 1, "offset": 0, "length": 1}), ("query_qp", {"qp": 1}),
                             ("poll", {"qp": None, "max": 1}), ("destroy_mr", {"mr": True})):
            self.assertFalse(self.ask(cmd, **members)["ok"], cmd)

    def test_the_end_of_the_connection_destroys_everything(self) -> None:
        self.good("start")
        self.client.close()
        self.until(lambda: self.control.responder.endpoint is None)


if __name__ == "__main__":
    unittest.main()
