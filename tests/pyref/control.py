"""The control protocol of docs/comply-control.md on TCP: lines of JSON, one client at a time."""

import json
import selectors
import socket

from .commands import Session
from .responder import Responder

MOST_LINE = 64 << 10
LONGEST_SLEEP = 0.5


class Control:
    """The loop of the whole program: the control connection, the receiving UDP socket, the timers."""

    def __init__(self, responder: Responder, address: str, port: int) -> None:
        self.responder, self.session = responder, Session(responder)
        self.selector = selectors.DefaultSelector()
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listener = socket.create_server((address, port), family=family)
        self.listener.setblocking(False)
        self.selector.register(self.listener, selectors.EVENT_READ, "listener")
        self.client: socket.socket | None = None
        self.incoming, self.outgoing = b"", b""
        self.udp: socket.socket | None = None

    @property
    def address(self) -> str:
        host, port = self.listener.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def run(self) -> None:
        while True:
            self.turn()

    def turn(self, most: float = LONGEST_SLEEP) -> None:
        """Wait for something to happen, at most until the next timer, and deal with it."""
        wait = self.responder.step()
        self._watch_udp()
        for key, events in self.selector.select(most if wait is None else min(wait, most)):
            if key.data == "listener":
                self._accept()
            elif key.data == "udp":
                self.responder.receive()
            elif self.client is not None:
                self._serve(events)
        if self.session.stopped():
            self._answer({"ok": True})
            self._requests()

    def _watch_udp(self) -> None:
        """The receiving socket changes with each `start`."""
        if self.udp is self.responder.receiver:
            return
        if self.udp is not None:
            try:
                self.selector.unregister(self.udp)
            except (KeyError, ValueError):
                pass
        self.udp = self.responder.receiver
        if self.udp is not None:
            self.selector.register(self.udp, selectors.EVENT_READ, "udp")

    def _accept(self) -> None:
        try:
            client, _ = self.listener.accept()
        except OSError:
            return
        if self.client is not None:
            client.close()
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client, self.incoming, self.outgoing = client, b"", b""
        self.selector.register(client, selectors.EVENT_READ, "client")

    def _serve(self, events: int) -> None:
        assert self.client is not None
        try:
            if events & selectors.EVENT_READ:
                data = self.client.recv(MOST_LINE)
                if not data:
                    self._hang_up()
                    return
                self.incoming += data
            self._requests()
            self._flush()
        except BlockingIOError:
            return
        except OSError:
            self._hang_up()

    def _requests(self) -> None:
        """Answer the whole lines that have come, in order; a `stop` under way holds up those behind it."""
        while not self.session.stopping and b"\n" in self.incoming:
            line, _, self.incoming = self.incoming.partition(b"\n")
            try:
                request = json.loads(line)
            except (ValueError, RecursionError):
                request = None
            answer = self.session.run(request)
            if answer is not None:
                self._answer(answer)
        if len(self.incoming) > 4 * MOST_LINE:
            self._hang_up()

    def _answer(self, answer: dict) -> None:
        self.outgoing += json.dumps(answer).encode() + b"\n"
        self._flush()

    def _flush(self) -> None:
        if self.client is None:
            return
        try:
            while self.outgoing:
                self.outgoing = self.outgoing[self.client.send(self.outgoing):]
        except BlockingIOError:
            pass
        except OSError:
            self._hang_up()
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self.outgoing else 0)
        self.selector.modify(self.client, wanted, "client")

    def _hang_up(self) -> None:
        """The client has gone, and everything with it."""
        if self.client is not None:
            self.selector.unregister(self.client)
            self.client.close()
            self.client = None
        self.incoming = self.outgoing = b""
        self.session.end()

    def close(self) -> None:
        self._hang_up()
        self.listener.close()
        self.selector.close()
