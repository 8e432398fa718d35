"""The other end of `ibv_rc_pingpong` (rdma-core): the program runs on the drop-in library, this end on the small peer.

The program exchanges LID, QPN, PSN and GID as text over TCP, then messages go to and fro. It sends from the buffer into
which it receives, so each message comes back as the next one, which is how the contents are checked.
"""

from __future__ import annotations

import random
import select
import socket
import struct
import time
from typing import Callable

from .connection import Connection
from .endpoint import Endpoint, Limits
from .identity import Security
from .protection import UPDATE_AFTER
from .queue_pair import SUCCESS, QueuePair, Receive
from .responder import Responder
from .small_codings import text_address, wire_address
from .work_request import OPCODES, WorkRequest

MESSAGE = struct.Struct("52s")  # "0000:000000:000000:" and 32 digits of the GID, with a zero behind it
PATIENCE = 60.0
NOT_CRYPTOGRAPHIC = 24
FIRST_BYTE = 0x7B  # what the program's buffer holds before anything came
ACCESS = {"local_write"}


class PeerFailed(Exception):
    """What the other end did is not what the program does."""


class Pingpong:
    def __init__(self, address: str, base_port: int, security: Security, key_update: int, size: int) -> None:
        self.responder = Responder(address, base_port, key_update)
        self.endpoint: Endpoint = self.responder.start(Limits(key_update=key_update), None, security)
        self.size = size
        self.region = self.endpoint.memory.create(2 * size, ACCESS)
        self.qp: QueuePair = self.endpoint.create_qp(16, 16)
        self.psn = random.getrandbits(NOT_CRYPTOGRAPHIC)
        self.deadline = time.monotonic() + PATIENCE
        self.connections_ever: list[Connection] = []

    def __enter__(self) -> Pingpong:
        return self

    def __exit__(self, *_: object) -> None:
        self.responder.end()

    # --- the exchange over TCP -----------------------------------------------------------------------------------

    def _own_message(self) -> bytes:
        return MESSAGE.pack(f"0000:{self.qp.qpn:06x}:{self.psn:06x}:{wire_address(self.endpoint.address).hex()}".encode())

    def _learn(self, message: bytes) -> None:
        _, qpn, psn, gid = message.partition(b"\0")[0].decode().split(":")
        qp = self.qp
        qp.remote_qpn, qp.rq_psn, qp.sq_psn = int(qpn, 16), int(psn, 16), self.psn
        qp.remote_address = bytes.fromhex(gid)
        qp.state = "rts"
        self._post_receive()

    @staticmethod
    def _read(stream: socket.socket, size: int) -> bytes:
        out = b""
        while len(out) < size:
            part = stream.recv(size - len(out))
            if not part:
                raise PeerFailed("the program closed its TCP connection")
            out += part
        return out

    def call(self, host: str, port: int) -> None:
        """As the client of a server that listens."""
        with socket.create_connection((host, port), PATIENCE) as stream:
            stream.sendall(self._own_message())
            self._learn(self._read(stream, MESSAGE.size))
            stream.sendall(b"done\0")

    def answer(self, listener: socket.socket) -> None:
        """As the server of a client that calls."""
        listener.settimeout(PATIENCE)
        stream, _ = listener.accept()
        with stream:
            stream.settimeout(PATIENCE)
            self._learn(self._read(stream, MESSAGE.size))
            stream.sendall(self._own_message())
            self._read(stream, len(b"done\0"))

    # --- messages ------------------------------------------------------------------------------------------------

    @property
    def peer(self) -> tuple[str, int]:
        return text_address(self.qp.remote_address), self.endpoint.base_port + (self.qp.remote_qpn >> 16)

    def turn(self) -> None:
        wait = self.responder.step()
        assert self.responder.receiver is not None
        select.select([self.responder.receiver], [], [], 0.1 if wait is None else min(wait, 0.1))
        self.responder.receive()
        self.connections_ever += [c for c in self.endpoint.connections.values() if c not in self.connections_ever]

    def until(self, done: Callable[[], bool], what: str) -> None:
        while not done():
            if time.monotonic() > self.deadline:
                raise PeerFailed(f"{what} did not happen; counted: {dict(self.endpoint.counters)}")
            self.turn()

    def _post_receive(self) -> None:
        self.qp.receives.append(Receive(1, self.region.number, self.size, self.size))
        if self.qp.receiving is not None:
            self.qp.receiving.posted(self.responder.now())

    def content(self, number: int) -> bytes:
        """Of the message of that number, from 1."""
        return bytes(FIRST_BYTE for _ in range(self.size)) if number == 0 else random.Random(number).randbytes(self.size)

    def send(self, number: int) -> None:
        assert self.qp.sending is not None
        self.region.data[:self.size] = self.content(number)
        self.qp.sending.requests.append(WorkRequest(2, OPCODES["send"], self.region.number, 0, self.size))

    def _completed(self, queue: str) -> None:
        def arrived() -> bool:
            return any(entry["queue"] == queue for entry in self.qp.completions)

        self.until(arrived, f"a completion of the {queue} queue")
        entry = next(entry for entry in self.qp.completions if entry["queue"] == queue)
        self.qp.completions.remove(entry)
        if entry["status"] != SUCCESS:
            raise PeerFailed(f"{queue} completed with {entry['status']}; counted: {dict(self.endpoint.counters)}")

    def receive(self, number: int) -> None:
        """The next message, which has the content of that number."""
        self._completed("recv")
        if bytes(self.region.data[self.size:]) != self.content(number):
            raise PeerFailed(f"message {number} has another content")
        self._post_receive()

    def sent(self) -> None:
        self._completed("send")

    def as_client(self, rounds: int) -> None:
        """This end speaks first; what it sends comes back."""
        for number in range(1, rounds + 1):
            self.send(number)
            self.sent()
            self.receive(number)

    def as_server(self, rounds: int) -> None:
        """The program speaks first, from its fresh buffer."""
        for number in range(1, rounds + 1):
            self.receive(number - 1)
            self.send(number)
            self.sent()

    def finish(self, ended: Callable[[], bool]) -> None:
        """Go on acknowledging until the program has ended."""
        self.until(ended, "the end of the program")
