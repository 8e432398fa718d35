"""A work request of the sending half: what was asked for, and how far it has come."""

from dataclasses import dataclass, field

from .codepoints import ANSWERED, ATOMICS, CONSUMING, Nak, Opcode
from .send_side import Packet

OPCODES = {"send": Opcode.SEND, "send_imm": Opcode.SEND_IMM, "send_inv": Opcode.SEND_INV, "write": Opcode.WRITE,
           "write_imm": Opcode.WRITE_IMM, "read": Opcode.READ_REQ, "compare_swap": Opcode.COMPARE_SWAP,
           "fetch_add": Opcode.FETCH_ADD}
COMPLETION_NAMES = {Opcode.SEND: "SEND", Opcode.SEND_IMM: "SEND", Opcode.SEND_INV: "SEND",
                    Opcode.WRITE: "RDMA_WRITE", Opcode.WRITE_IMM: "RDMA_WRITE", Opcode.READ_REQ: "RDMA_READ",
                    Opcode.COMPARE_SWAP: "COMP_SWAP", Opcode.FETCH_ADD: "FETCH_ADD"}
# §9.12: the requester's status for a NAK code, the status of a response, or the code of a STOP.
STATUS_OF_CODE = {Nak.ACCESS: "REM_ACCESS_ERR", Nak.INVALID: "REM_INV_REQ_ERR", Nak.LENGTH: "REM_INV_REQ_ERR",
                  Nak.REMOTE_OP: "REM_OP_ERR"}
RETRY = "RETRY_EXC_ERR"


@dataclass(eq=False)
class WorkRequest:
    wr_id: int
    op: Opcode
    region: int
    offset: int
    length: int
    remote_addr: int = 0
    rkey: int = 0
    imm: int = 0
    operand: int = 0
    compare: int = 0
    fence: bool = False
    solicited: bool = False
    unsignaled: bool = False
    msn: int = -1
    rqsn: int = 0
    cut: int = 0  # bytes that were cut into packets
    cut_all: bool = False
    voided: bool = False  # some of it was accepted as VOID
    answered: int = 0  # bytes of the response that are placed
    answered_all: bool = False
    open: list[Packet] = field(default_factory=list)  # packets that are not accepted

    @property
    def started(self) -> bool:
        return self.msn >= 0

    @property
    def consumes(self) -> bool:
        return self.op in CONSUMING

    @property
    def outstanding(self) -> bool:
        """A READ or atomic that waits for its response."""
        return self.op in ANSWERED and self.started and not self.answered_all

    @property
    def local_length(self) -> int:
        return 8 if self.op in ATOMICS else self.length

    @property
    def wire_length(self) -> int:
        return 8 if self.op in ATOMICS else self.length

    @property
    def sent(self) -> bool:
        """All of its packets are accepted, as data."""
        return self.cut_all and not self.open and not self.voided

    @property
    def done(self) -> bool:
        return self.answered_all if self.op in ANSWERED else self.sent

    def again(self) -> None:
        """Start from the first byte (§8.14)."""
        self.cut, self.cut_all, self.voided = 0, False, False
