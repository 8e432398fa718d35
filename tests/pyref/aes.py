"""AES-128 in the direction of encryption (FIPS 197), of many blocks at once.

The state of n blocks is kept as 16 strings of n bytes, one for each place in a block. ShiftRows then only renames
strings, SubBytes together with the factors of MixColumns is `bytes.translate`, and additions are those of long
integers: a packet of 4 KiB costs Python hardly more than one block.
"""

KEY_BYTES = 16
BLOCK_BYTES = 16
ROUNDS = 10


def double(byte: int) -> int:
    """Times x in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1."""
    return (byte << 1 ^ (0x11B if byte & 0x80 else 0)) & 0xFF


def _make_sbox() -> bytes:
    """The inverse in GF(2^8), then the affine map. 3 generates the field; its powers and their inverses are walked."""
    box, p, q = bytearray(256), 1, 1
    for _ in range(255):
        p ^= double(p)  # times 3
        for shift in (1, 2, 4):  # divided by 3
            q = (q ^ q << shift) & 0xFF
        q ^= 0x09 if q & 0x80 else 0
        rotated = q | q << 8
        box[p] = (q ^ rotated >> 7 ^ rotated >> 6 ^ rotated >> 5 ^ rotated >> 4 ^ 0x63) & 0xFF
    box[0] = 0x63
    return bytes(box)


SBOX = _make_sbox()
SBOX2 = bytes(double(byte) for byte in SBOX)
SBOX3 = bytes(double(byte) ^ byte for byte in SBOX)


class Aes128:
    """One key."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError("a key of AES-128 has 16 bytes")
        words, constant = [key[i:i + 4] for i in range(0, KEY_BYTES, 4)], 1
        for i in range(4, 4 * (ROUNDS + 1)):
            word = words[-1]
            if i % 4 == 0:
                word = (word[1:] + word[:1]).translate(SBOX)
                word = bytes((word[0] ^ constant,)) + word[1:]
                constant = double(constant)
            words.append(bytes(a ^ b for a, b in zip(word, words[i - 4])))
        self.round_keys = [b"".join(words[i:i + 4]) for i in range(0, len(words), 4)]

    def encrypt(self, blocks: bytes) -> bytes:
        """Each block of 16 bytes for itself."""
        count = len(blocks) // BLOCK_BYTES
        ones = int.from_bytes(b"\1" * count, "big")  # times a byte: that byte in every block
        key = self.round_keys[0]
        state = [(int.from_bytes(blocks[i::BLOCK_BYTES], "big") ^ ones * key[i]).to_bytes(count, "big")
                 for i in range(BLOCK_BYTES)]
        for key in self.round_keys[1:ROUNDS]:
            state = _round(state, key, ones, count)
        key, out = self.round_keys[ROUNDS], bytearray(len(blocks))
        for i in range(BLOCK_BYTES):
            last = int.from_bytes(state[5 * i % 16].translate(SBOX), "big") ^ ones * key[i]
            out[i::BLOCK_BYTES] = last.to_bytes(count, "big")
        return bytes(out)


def _round(state: list[bytes], key: bytes, ones: int, count: int) -> list[bytes]:
    """SubBytes, ShiftRows (place i takes what was at 5i mod 16), MixColumns, AddRoundKey."""
    once = [int.from_bytes(place.translate(SBOX), "big") for place in state]
    twice = [int.from_bytes(place.translate(SBOX2), "big") for place in state]
    thrice = [int.from_bytes(place.translate(SBOX3), "big") for place in state]
    out = []
    for i in range(BLOCK_BYTES):
        column = i & 12
        a, b, c, d = (5 * (column | (i + row & 3)) % 16 for row in range(4))
        out.append((twice[a] ^ thrice[b] ^ once[c] ^ once[d] ^ ones * key[i]).to_bytes(count, "big"))
    return out
