"""Commands of docs/comply-control.md, carried out on the endpoint of a responder."""

from typing import Any, Callable

from .arguments import MOST32, CommandError, Request, choice, flag, number, octets, rights, wide
from .codepoints import ATOMICS, BITS24, Opcode
from .endpoint import Endpoint, Limits
from .identity import POLICIES, Security
from .key_schedule import PSK_BYTES
from .queue_pair import ALL_ACCESS, FLUSHED, QueuePair, Receive
from .responder import Responder
from .small_codings import wire_address
from .work_request import COMPLETION_NAMES, OPCODES, WorkRequest

IMPLEMENTATION = "mroce pyref 1"
FEATURES = ["requester", "read", "atomics", "initiator", "mode2", "retry"]
MOST_REGION = 1 << 26
MOST_MEMORY = 1 << 28
MOST_TRANSFER = 16384
MOST_QPS = 4096
MOST_WR = 32768
UNSUPPORTED = {"create_srq", "link"}
KNOWN_LIMITS = {"max_paths", "max_payload", "cpsn_window", "max_rd_atomic", "max_connections", "key_update_packets"}

Answer = dict[str, Any]


class Session:
    """One client of the control protocol. `run` answers a request; None means that the answer comes later."""

    def __init__(self, responder: Responder) -> None:
        self.responder = responder
        self.qps: dict[int, QueuePair] = {}
        self.stopping = False

    @property
    def endpoint(self) -> Endpoint:
        if self.responder.endpoint is None:
            raise CommandError("there is no endpoint: send start first")
        return self.responder.endpoint

    def run(self, request: Any) -> Answer | None:
        """Never raises: whatever is wrong with the request is in the answer."""
        try:
            if not isinstance(request, dict) or not isinstance(request.get("cmd"), str):
                raise CommandError("a request is an object with a member cmd")
            command: Callable[[Request], Answer | None] | None = getattr(self, "cmd_" + request["cmd"], None)
            if command is None or request["cmd"] in UNSUPPORTED:
                raise CommandError("this target does not have the command", True)
            answer = command(request)
        except CommandError as error:
            return {"ok": False, "error": str(error), **({"unsupported": True} if error.unsupported else {})}
        return None if answer is None else {"ok": True, **answer}

    def end(self) -> None:
        """The control connection has ended: destroy everything that was made through it."""
        self.responder.end()
        self.qps.clear()
        self.stopping = False

    def stopped(self) -> bool:
        """Whether a `stop` that is under way is done."""
        endpoint = self.responder.endpoint
        if self.stopping and (endpoint is None or not endpoint.connections):
            self.end()
            return True
        return False

    # --- the endpoint --------------------------------------------------------------------------------------------

    def cmd_hello(self, request: Request) -> Answer:
        number(request, "protocol", 1, 1)
        return {"protocol": 1, "implementation": IMPLEMENTATION, "features": FEATURES}

    def cmd_start(self, request: Request) -> Answer:
        asked = request.get("limits", {})
        if not isinstance(asked, dict):
            raise CommandError("limits must be an object")
        security = self._security(request)
        for name in asked.keys() - KNOWN_LIMITS:
            raise CommandError(f"this target has no limit {name[:40]}", True)
        seed = number(request, "seed", 0, (1 << 64) - 1) if "seed" in request else None
        limits = Limits(number(asked, "max_paths", 1, 32, 4), number(asked, "max_payload", 512, 4096, 4096),
                        number(asked, "cpsn_window", 64, 1 << 20, 16384), number(asked, "max_rd_atomic", 0, 255, 16),
                        number(asked, "max_connections", 1, 4096, 4096),
                        number(asked, "key_update_packets", 16, 1 << 23, self.responder.key_update))
        self.end()
        try:
            endpoint = self.responder.start(limits, seed, security)
        except OSError as error:
            raise CommandError(f"the endpoint cannot be opened: {error}") from error
        return {"address": endpoint.address, "port": endpoint.port, "slot": endpoint.slot, "planes": 1}

    @staticmethod
    def _security(request: Request) -> Security:
        mode = number(request, "mode", 0, 255, 0)
        if mode not in (0, 2):
            raise CommandError("this target has the security modes 0 and 2 only", True)
        psk = octets(request, "psk") if "psk" in request else None
        if psk is not None and len(psk) != PSK_BYTES:
            raise CommandError(f"psk must have {PSK_BYTES} bytes")
        return Security(POLICIES["require" if mode == 2 else "off"], psk if mode == 2 else None)

    def cmd_stop(self, _: Request) -> None:
        self.endpoint.shutdown(self.responder.now())
        self.stopping = True

    # --- memory --------------------------------------------------------------------------------------------------

    def cmd_create_mr(self, request: Request) -> Answer:
        length = number(request, "length", 0, MOST_REGION)
        memory = self.endpoint.memory
        if sum(len(region.data) for region in memory.regions.values()) + length > MOST_MEMORY:
            raise CommandError("this target has no memory left: destroy a region")
        region = memory.create(length, rights(request, "access", frozenset()))
        return {"mr": region.number, "addr": hex(region.addr), "rkey": region.key}

    def cmd_destroy_mr(self, request: Request) -> Answer:
        if not self.endpoint.memory.destroy(number(request, "mr", 0, MOST32)):
            raise CommandError("there is no such region")
        return {}

    def _piece(self, request: Request, length: int) -> tuple[bytearray, int]:
        region = self.endpoint.memory.regions.get(number(request, "mr", 0, MOST32))
        offset = number(request, "offset", 0, MOST_REGION, 0)
        if region is None or offset + length > len(region.data):
            raise CommandError("there is no such region, or the bytes are not in it")
        return region.data, offset

    def cmd_read_memory(self, request: Request) -> Answer:
        length = number(request, "length", 0, MOST_TRANSFER)
        data, offset = self._piece(request, length)
        return {"bytes": data[offset:offset + length].hex()}

    def cmd_write_memory(self, request: Request) -> Answer:
        content = octets(request, "bytes")
        data, offset = self._piece(request, len(content))
        data[offset:offset + len(content)] = content
        return {}

    # --- queue pairs ---------------------------------------------------------------------------------------------

    def _qp(self, request: Request) -> QueuePair:
        qp = self.qps.get(number(request, "qp", 0, MOST32))
        if qp is None or self.endpoint.qps.get(qp.stream) is not qp:
            raise CommandError("there is no such queue pair")
        return qp

    def cmd_create_qp(self, request: Request) -> Answer:
        if "srq" in request:
            raise CommandError("this target has no shared receive queues", True)
        if len(self.endpoint.qps) >= MOST_QPS:
            raise CommandError(f"this target has {MOST_QPS} queue pairs at most")
        qp = self.endpoint.create_qp(number(request, "max_send_wr", 0, MOST_WR),
                                     number(request, "max_recv_wr", 0, MOST_WR))
        self.qps[qp.number] = qp
        return {"qp": qp.number, "qpn": qp.qpn}

    def cmd_connect_qp(self, request: Request) -> Answer:
        qp = self._qp(request)
        to = choice(request, "to", ("rtr", "rts"), "rts")
        if qp.state not in ("reset", "rtr"):
            raise CommandError(f"the queue pair is in state {qp.state}; reset it first")
        try:
            qp.remote_address = wire_address(str(request.get("remote_address")))
        except ValueError as error:
            raise CommandError("remote_address must be an IP address") from error
        qp.remote_qpn = number(request, "remote_qpn", 0, BITS24)
        qp.sq_psn, qp.rq_psn = number(request, "sq_psn", 0, BITS24), number(request, "rq_psn", 0, BITS24)
        qp.timeout = number(request, "timeout", 0, 31, 14)
        qp.retry_cnt, qp.rnr_retry = number(request, "retry_cnt", 0, 7, 7), number(request, "rnr_retry", 0, 7, 7)
        qp.min_rnr_timer = number(request, "min_rnr_timer", 0, 31, 12)
        qp.rd_atomic = min(number(request, "rd_atomic", 0, 255, 16), self.endpoint.limits.max_rd_atomic)
        qp.access = frozenset(rights(request, "access", ALL_ACCESS))
        qp.state = to
        return {}

    def cmd_modify_qp(self, request: Request) -> Answer:
        qp = self._qp(request)
        if choice(request, "state", ("reset", "err")) == "err":
            self.endpoint.qp_error(qp, None)
        else:
            self.endpoint.reset_qp(qp)
        return {}

    def cmd_query_qp(self, request: Request) -> Answer:
        return {"state": self._qp(request).state}

    def cmd_destroy_qp(self, request: Request) -> Answer:
        qp = self._qp(request)
        self.endpoint.destroy_qp(qp)
        del self.qps[qp.number]
        return {}

    # --- work ----------------------------------------------------------------------------------------------------

    def cmd_post_recv(self, request: Request) -> Answer:
        if "srq" in request:
            raise CommandError("this target has no shared receive queues", True)
        qp = self._qp(request)
        if len(qp.receives) >= qp.max_recv_wr:
            raise CommandError("the receive queue is full")
        qp.receives.append(Receive(number(request, "wr_id", 0, (1 << 64) - 1), number(request, "mr", 0, MOST32),
                                   number(request, "offset", 0, MOST_REGION, 0),
                                   number(request, "length", 0, MOST_REGION)))
        if qp.state == "err":
            qp.flush_receives()
        elif qp.receiving is not None:
            qp.receiving.posted(self.responder.now())
        return {}

    def cmd_post_send(self, request: Request) -> Answer:
        qp = self._qp(request)
        op = OPCODES[choice(request, "op", tuple(OPCODES))]
        atomic = op in ATOMICS
        wr = WorkRequest(number(request, "wr_id", 0, (1 << 64) - 1), op, number(request, "mr", 0, MOST32, 0),
                         number(request, "offset", 0, MOST_REGION, 0),
                         8 if atomic else number(request, "length", 0, MOST_REGION, 0),
                         wide(request, "remote_addr"), number(request, "rkey", 0, MOST32, 0),
                         number(request, "imm", 0, MOST32, 0),
                         wide(request, "add" if op == Opcode.FETCH_ADD else "swap"), wide(request, "compare"),
                         flag(request, "fence"), flag(request, "solicited"), flag(request, "unsignaled"))
        if qp.state == "err":
            qp.complete(wr.wr_id, "send", FLUSHED, COMPLETION_NAMES[op])
            return {}
        if qp.state not in ("rts", "sqd") or qp.sending is None:
            raise CommandError(f"the queue pair is in state {qp.state}, which takes no work requests")
        if len(qp.sending.requests) >= qp.max_send_wr:
            raise CommandError("the send queue is full")
        qp.sending.requests.append(wr)
        return {}

    def cmd_poll(self, request: Request) -> Answer:
        qp = self._qp(request)
        count = min(number(request, "max", 1, 64, 64), len(qp.completions))
        return {"completions": [qp.completions.popleft() for _ in range(count)]}
