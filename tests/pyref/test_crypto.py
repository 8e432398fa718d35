"""The primitives of mode 2 against the vectors of the documents that define them."""

import unittest

from pyref import hkdf
from pyref.aes import Aes128
from pyref.gcm import Gcm
from pyref.x25519 import BASE_POINT, public_key, x25519

octets = bytes.fromhex

# McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B: key, nonce, plaintext, associated data,
# ciphertext, tag of the cases 1 to 4, which are those of AES-128 with nonces of 12 bytes.
KEY, NONCE = "feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888"
PLAIN = ("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
         "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255")
SEALED = ("42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e"
          "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985")
GCM_CASES = [
    ("00" * 16, "00" * 12, "", "", "", "58e2fccefa7e3061367f1d57a4e7455a"),
    ("00" * 16, "00" * 12, "00" * 16, "", "0388dace60b6a392f328c2b971b2fe78", "ab6e47d42cec13bdf53a67b21257bddf"),
    (KEY, NONCE, PLAIN, "", SEALED, "4d5c2af327cd64a62cf35abd2ba6fab4"),
    (KEY, NONCE, PLAIN[:-8], "feedfacedeadbeeffeedfacedeadbeefabaddad2", SEALED[:-8], "5bc94fbc3221a5db94fae95ae7121a47"),
]


class Curve(unittest.TestCase):
    def test_the_two_vectors_of_rfc_7748_section_5_2(self) -> None:
        for scalar, point, result in (
                ("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4",
                 "e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c",
                 "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"),
                ("4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d",
                 "e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493",
                 "95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957")):
            self.assertEqual(x25519(octets(scalar), octets(point)).hex(), result)

    def test_the_iterations_of_rfc_7748_section_5_2(self) -> None:
        k = u = BASE_POINT
        expected = {1: "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079",
                    1000: "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"}
        for i in range(1, 1001):
            k, u = x25519(k, u), k
            self.assertEqual(k.hex(), expected.get(i, k.hex()))

    def test_the_agreement_of_rfc_7748_section_6_1(self) -> None:
        alice = octets("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
        bob = octets("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
        self.assertEqual(public_key(alice).hex(), "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a")
        self.assertEqual(public_key(bob).hex(), "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f")
        shared = "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742"
        self.assertEqual(x25519(alice, public_key(bob)).hex(), shared)
        self.assertEqual(x25519(bob, public_key(alice)).hex(), shared)

    def test_points_of_small_order_give_zero(self) -> None:
        for u in (0, 1, 2**255 - 20, 2**255 - 19, 2**255 - 18,
                  int.from_bytes(octets("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"), "little")):
            self.assertEqual(x25519(bytes(range(32)), u.to_bytes(32, "little")), bytes(32))

    def test_keys_of_another_size_are_refused(self) -> None:
        for private, public in ((bytes(31), bytes(32)), (bytes(32), bytes(33))):
            with self.assertRaises(ValueError):
                x25519(private, public)


class Cipher(unittest.TestCase):
    def test_the_example_of_fips_197(self) -> None:
        aes = Aes128(bytes(range(16)))
        block = octets("00112233445566778899aabbccddeeff")
        self.assertEqual(aes.encrypt(block).hex(), "69c4e0d86a7b0430d8cdb78070b4c55a")

    def test_the_key_expansion_of_fips_197_appendix_a_1(self) -> None:
        keys = Aes128(octets("2b7e151628aed2a6abf7158809cf4f3c")).round_keys
        self.assertEqual((keys[1].hex(), keys[10].hex()),
                         ("a0fafe1788542cb123a339392a6c7605", "d014f9a8c9ee2589e13f0cc8b6630ca6"))

    def test_many_blocks_come_out_as_each_for_itself(self) -> None:
        aes, blocks = Aes128(bytes(range(16))), [bytes((i,)) * 15 + b"\7" for i in range(40)]
        self.assertEqual(aes.encrypt(b"".join(blocks)), b"".join(map(aes.encrypt, blocks)))

    def test_a_key_of_another_size_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            Aes128(bytes(32))


class Authentication(unittest.TestCase):
    def test_the_cases_of_gcm_for_128_bits(self) -> None:
        for key, nonce, plain, aad, sealed, tag in GCM_CASES:
            gcm = Gcm(octets(key))
            self.assertEqual(gcm.seal(octets(nonce), octets(aad), octets(plain)).hex(), sealed + tag)
            self.assertEqual(gcm.open(octets(nonce), octets(aad), octets(sealed + tag)), octets(plain))

    def test_each_changed_bit_is_noticed(self) -> None:
        gcm, nonce, aad = Gcm(octets(KEY)), octets(NONCE), b"header"
        sealed = gcm.seal(nonce, aad, b"some payload, more than a block")
        self.assertIsNotNone(gcm.open(nonce, aad, sealed))
        for bit in range(8 * len(sealed)):
            changed = bytearray(sealed)
            changed[bit // 8] ^= 1 << bit % 8
            self.assertIsNone(gcm.open(nonce, aad, bytes(changed)))
        for nonce, aad in ((bytes(12), aad), (nonce, b"Header"), (nonce, b"header\0")):
            self.assertIsNone(gcm.open(nonce, aad, sealed))
        self.assertIsNone(gcm.open(octets(NONCE), b"header", sealed[:15]))

    def test_a_nonce_of_another_size_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            Gcm(octets(KEY)).seal(bytes(8), b"", b"")


class Derivation(unittest.TestCase):
    def test_the_cases_of_rfc_5869_for_sha_256(self) -> None:
        for material, salt, info, prk, okm in (
                (b"\x0b" * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)),
                 "077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5",
                 "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"),
                (bytes(range(0x50)), bytes(range(0x60, 0xB0)), bytes(range(0xB0, 0x100)),
                 "06a6b88c5853361a06104c9ceb35b45cef760014904671014a193f40c15fc244",
                 "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
                 "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"),
                (b"\x0b" * 22, b"", b"", "19ef24a32c717b167f33a91d6f648bdf96596776afdb6377ac434c1c293ccb04",
                 "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8")):
            self.assertEqual(hkdf.extract(salt, material).hex(), prk)
            self.assertEqual(hkdf.expand(octets(prk), info, len(okm) // 2).hex(), okm)


if __name__ == "__main__":
    unittest.main()
