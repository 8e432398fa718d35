"""A sender without credit (§5.17, §8.11), and the pauses after RNR (§8.14)."""

from dataclasses import dataclass

MILLI = 1_000_000
PROBE_MOST = 100 * MILLI
FOR_EVER = 7
# IBTA table 46, in units of 10 us.
RNR_TIMERS = (65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
              3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152)


def rnr_timer(code: int) -> int:
    """Nanoseconds of an RNR timer code."""
    return RNR_TIMERS[code & 31] * 10_000


@dataclass
class CreditWait:
    """Since when a half waits, when it asks next, and when it gives up."""

    ask_at: int
    interval: int
    give_up_at: int | None = None

    def asked(self, now: int) -> None:
        self.interval = min(PROBE_MOST, self.interval * 2)
        self.ask_at = now + self.interval

    def confirmed(self, now: int, rnr_retry: int, timer_code: int) -> None:
        """The peer has said that it has no receive."""
        if self.give_up_at is None and rnr_retry != FOR_EVER:
            self.give_up_at = now + rnr_retry * rnr_timer(timer_code)


@dataclass
class RnrPause:
    """The three steps of §8.14: `step` 1 and 2 wait for VOIDs, 3 for the peer's timer."""

    msn: int
    resume_at: int
    step: int = 1
