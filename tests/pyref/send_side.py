"""The sender of packets on a connection: CPSNs, transmissions, loss (§5.1, §5.2, §5.7–§5.15), on one path.

The rules for loss are simpler than those of the specification, as they may be: a gap below the highest acknowledged
PSEQ means loss (with a threshold that grows by mistakes), and a timer gives up whatever has been flying too long.
The window of the path is halved on CE marks and grows by one packet a round trip; the connection's window obeys the
peer's receive buffer and host penalty (§6.1).
"""

from collections import deque
from dataclasses import dataclass
from typing import Callable, Protocol

from .codepoints import Drop, Flag, Opcode
from .numbers import MASK32, expand
from .packets import Ack, Data, PathBlock

PTO_MIN, PTO_MAX, PTO_FIRST = 4_000_000, 100_000_000, 20_000_000
MOST_REORDER = 64
MOST_WINDOW_BYTES = 1 << 20
INITIAL_WINDOW = 32.0

Built = tuple[Data, int]  # a packet and its flags


@dataclass(eq=False)
class Packet:
    """One packet for life: a CPSN. `build` makes it anew for each transmission."""

    owner: object
    build: Callable[[], Built]
    accepted: Callable[[bool], None]  # told whether it was accepted as data
    void_stream: int = 0
    void_msn: int = 0
    tag: object = None  # the work request of a request
    cpsn: int = 0
    is_void: bool = False
    sends: int = 0
    newest: int = -1  # PSEQ of the newest transmission
    waiting: bool = False  # in the queue of packets to send again


@dataclass(eq=False)
class Transmission:
    packet: Packet
    time: int
    size: int
    lost: bool = False


class Producer(Protocol):
    """Something that cuts packets when there is room for one; its packets have the same owner."""

    owner: object

    def next_packet(self) -> Packet | None: ...


def nothing(_: int) -> None:
    """For packets whose acceptance interests nobody."""


class SendSide:
    def __init__(self, first_cpsn: int, first_pseq: int, window: int, full_size: int, peer_buffer: int) -> None:
        self.first_cpsn = self.next_cpsn = self.cack = self.oldest = first_cpsn
        self.next_pseq = first_pseq
        self.window, self.limit = window, first_cpsn + window
        self.full_size, self.peer_buffer, self.penalty = full_size, peer_buffer, 0
        self.packets: dict[int, Packet] = {}
        self.flights: dict[int, Transmission] = {}
        self.flying = self.flying_bytes = 0
        self.again: deque[Packet] = deque()
        self.control: deque[Packet] = deque()
        self.producers: deque[Producer] = deque()
        self.highest_acked, self.reorder = first_pseq - 1, 0
        self.cwnd, self.last_cut = INITIAL_WINDOW, 0
        self.rx_count = self.ce_count = 0
        self.srtt = self.rttvar = 0
        self.expiries, self.timer_from = 0, 0
        self.last_accept = 0
        self.on_accepted: Callable[[int], None] = nothing

    # --- sending -------------------------------------------------------------------------------------------------

    def push(self, packet: Packet) -> None:
        """Stream control: goes before everything new (§6.8)."""
        self.control.append(packet)

    def bytes_window(self) -> int:
        whole = min(MOST_WINDOW_BYTES, self.peer_buffer // 2) * (128 - self.penalty) // 128
        return max(whole, 2 * (self.full_size + 12))

    def _room(self) -> bool:
        if self.flying == 0:
            return True
        return self.flying < int(self.cwnd) and self.flying_bytes + self.full_size <= self.bytes_window()

    def _new(self) -> Packet | None:
        """The next packet of the producers, in turns, with its CPSN."""
        if self.next_cpsn >= min(self.limit, self.oldest + self.window):
            return None
        packet = self.control.popleft() if self.control else None
        for _ in range(len(self.producers)):
            if packet is not None:
                break
            packet = self.producers[0].next_packet()
            self.producers.rotate(-1)
        if packet is not None:
            packet.cpsn = self.next_cpsn
            self.next_cpsn += 1
            self.packets[packet.cpsn] = packet
        return packet

    def next(self, now: int) -> Packet | None:
        """The packet to transmit now, lost ones first; the caller calls `transmitted` with it."""
        while self.again and self._room():
            packet = self.again.popleft()
            packet.waiting = False
            if packet.cpsn in self.packets:
                return packet
        fresh = self._new() if self._room() else None
        if fresh is not None and len(self.packets) == 1:
            self.last_accept = now  # standstill counts from here
        return fresh

    def content(self, packet: Packet) -> Built:
        """The packet as it is transmitted now."""
        if packet.is_void:
            data, flags = Data(Opcode.VOID, stream=packet.void_stream, msn=packet.void_msn & MASK32), 0
        else:
            data, flags = packet.build()
        data.cpsn = packet.cpsn & MASK32
        return data, flags | (Flag.RTX if packet.sends else 0)

    def transmitted(self, packet: Packet, size: int, now: int) -> int:
        """Record a transmission; its PSEQ."""
        pseq = self.next_pseq
        self.next_pseq += 1
        if self.flying == 0:
            self.timer_from = now
        packet.sends += 1
        packet.newest = pseq
        self.flights[pseq] = Transmission(packet, now, size)
        self.flying += 1
        self.flying_bytes += size
        return pseq

    # --- what became of it ---------------------------------------------------------------------------------------

    def check(self, ack: Ack) -> None:
        """§5.7, before anything changes."""
        for block in ack.blocks:
            if block.path != 0:
                raise Drop("drop_path")
            if expand(block.largest, self.next_pseq) >= self.next_pseq:
                raise Drop("drop_forged_ack")
        if expand(ack.cack, self.cack) > self.next_cpsn:
            raise Drop("drop_forged_ack")

    def on_ack(self, ack: Ack, own_window: int, now: int) -> None:
        """Steps 1 to 3 and 5 of §5.7, less what belongs to streams."""
        self.penalty = ack.host_penalty
        cack = expand(ack.cack, self.cack)
        limit = expand(ack.cpsn_limit, self.limit)
        if self.limit < limit <= cack + own_window:
            self.limit = limit
        for block in ack.blocks:
            self._on_block(block, now)
        self.on_cack(cack, now)
        for pseq in [p for p in self.flights if p < self.highest_acked - self.reorder]:
            self._lose(pseq)

    def on_cack(self, cack: int, now: int) -> None:
        """Step 3 of §5.7; a CLOSE has one as well."""
        self.cack = max(self.cack, cack)
        for cpsn in range(self.oldest, self.cack):
            packet = self.packets.get(cpsn)
            if packet is not None:
                self._land(packet.newest)
                self._accept(packet, now)
        self.oldest = max(self.oldest, self.cack)

    def _on_block(self, block: PathBlock, now: int) -> None:
        largest = expand(block.largest, self.next_pseq)
        flight = self.flights.get(largest)
        if flight is not None and not flight.lost and block.vector & 1 and block.ack_delay != 0xFFFF:
            age = now - flight.time
            self.sample(max(1, age - min(block.ack_delay * 64, age)))
        for distance in range(256):
            if block.vector >> distance & 1 and largest - distance in self.flights:
                self._acknowledge(largest - distance, now)
        rx = (block.rx_count - self.rx_count) & MASK32
        if 0 < rx < 1 << 31:
            self._marks((block.ce_count - self.ce_count) & MASK32, rx, now)
            self.rx_count, self.ce_count = block.rx_count, block.ce_count

    def _acknowledge(self, pseq: int, now: int) -> None:
        flight = self.flights[pseq]
        if flight.lost:
            self.reorder = min(MOST_REORDER, max(self.reorder + 1, self.highest_acked - pseq))
        self._land(pseq)
        self.highest_acked = max(self.highest_acked, pseq)
        self.cwnd += 1 / self.cwnd
        self._accept(flight.packet, now)

    def sample(self, rtt: int) -> None:
        if self.srtt == 0:
            self.srtt, self.rttvar = rtt, rtt // 2
        else:
            self.rttvar += (abs(rtt - self.srtt) - self.rttvar) // 4
            self.srtt += (rtt - self.srtt) // 8

    def _marks(self, ce: int, rx: int, now: int) -> None:
        if 0 < ce <= rx and now - self.last_cut >= self.srtt:
            self.cwnd, self.last_cut = max(1.0, self.cwnd / 2), now

    def _land(self, pseq: int) -> None:
        """A transmission leaves the flight."""
        flight = self.flights.pop(pseq, None)
        if flight is not None and not flight.lost:
            self.flying -= 1
            self.flying_bytes -= flight.size

    def _accept(self, packet: Packet, now: int) -> None:
        self.expiries, self.timer_from = 0, now
        if self.packets.pop(packet.cpsn, None) is None:
            return
        self.last_accept = now
        self.on_accepted(packet.cpsn)
        self._land(packet.newest)
        while self.oldest < self.next_cpsn and self.oldest not in self.packets:
            self.oldest += 1
        packet.accepted(not packet.is_void)

    def _lose(self, pseq: int) -> None:
        flight = self.flights[pseq]
        if not flight.lost:
            flight.lost = True
            self.flying -= 1
            self.flying_bytes -= flight.size
            if flight.packet.newest == pseq and flight.packet.cpsn in self.packets:
                self._repeat(flight.packet)
        if pseq < self.next_pseq - 512:  # enough memory of spurious losses, §5.13
            del self.flights[pseq]

    def _repeat(self, packet: Packet) -> None:
        if not packet.waiting:
            packet.waiting = True
            self.again.append(packet)

    def timeout(self) -> int:
        base = PTO_FIRST if self.srtt == 0 else 2 * self.srtt + 4 * self.rttvar + 50_000
        return min(PTO_MAX, max(PTO_MIN, base) << min(self.expiries, 10))

    def deadline(self) -> int | None:
        return self.timer_from + self.timeout() if self.flying else None

    def on_timer(self, now: int) -> None:
        """Whatever has been flying for the whole timeout is lost."""
        deadline = self.deadline()
        if deadline is None or now < deadline:
            return
        wait = self.timeout()
        for pseq in [p for p, flight in self.flights.items() if not flight.lost and now - flight.time >= wait]:
            self._lose(pseq)
        self.expiries += 1
        self.timer_from = now

    # --- giving up -----------------------------------------------------------------------------------------------

    def give_up(self, owner: object) -> None:
        """Everything of `owner` that is not accepted becomes VOID (§5.15); what has no CPSN yet is forgotten."""
        self.control = deque(packet for packet in self.control if packet.owner is not owner)
        self.producers = deque(producer for producer in self.producers if producer.owner is not owner)
        for packet in self.packets.values():
            if packet.owner is owner and not packet.is_void:
                self.make_void(packet)

    def make_void(self, packet: Packet) -> None:
        packet.is_void = True
        self._repeat(packet)

