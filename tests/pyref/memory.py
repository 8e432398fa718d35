"""Memory regions of the small peer: keys, bounds, rights (§9.3, §10.2).

An rkey is 20 bits of slot and 12 random bits. Addresses are made up, far from each other, so that no two regions touch.
"""

import random
from dataclasses import dataclass, field

REGION_STRIDE = 1 << 27
FIRST_ADDRESS = 0x7F00_0000_0000
MOST_REGIONS = 1 << 12


@dataclass
class Region:
    number: int
    addr: int
    key: int
    data: bytearray
    access: set[str] = field(default_factory=set)

    def covers(self, va: int, length: int) -> bool:
        return self.addr <= va and va + length <= self.addr + len(self.data)


class Memory:
    """The regions of one endpoint; they share one protection domain."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.regions: dict[int, Region] = {}
        self.by_key: dict[int, Region] = {}
        self.made = 0

    def create(self, length: int, access: set[str]) -> Region:
        self.made += 1
        number = self.made
        key = (number & 0xFFFFF) << 12 | self.source.randrange(1 << 12)
        region = Region(number, FIRST_ADDRESS + number * REGION_STRIDE, key, bytearray(length), access)
        self.regions[number] = self.by_key[key] = region
        return region

    def destroy(self, number: int) -> bool:
        region = self.regions.pop(number, None)
        if region is None:
            return False
        self.by_key.pop(region.key, None)
        return True

    def remote(self, key: int, va: int, length: int, right: str) -> Region | None:
        """The region that a peer may use that way, if there is one."""
        region = self.by_key.get(key)
        if region is None or right not in region.access or not region.covers(va, length):
            return None
        return region

    def local(self, number: int, offset: int, length: int, write: bool) -> Region | None:
        """The region that a work request of our own names, if the bytes are in it."""
        region = self.regions.get(number)
        if region is None or offset < 0 or offset + length > len(region.data):
            return None
        if write and "local_write" not in region.access:
            return None
        return region
