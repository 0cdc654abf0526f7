"""Private keys that are made up: right in structure, never in use.

They are drawn from a seed, so that nothing that looks like a key stands in this repository.
"""

import base64
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MadeKey:
    """A key's base64 in ``lines``, between its markers."""

    kind: str
    opening: str
    lines: tuple[str, ...]
    ending: str


def made_keys(seed: int = 1) -> list[MadeKey]:
    """Return a private key of each kind."""
    rng = random.Random(seed)

    def rsa(n_bytes: int) -> bytes:
        # Version, modulus, exponents, primes, exponents and the coefficient, RFC 8017.
        sizes = (n_bytes, 0, n_bytes, *[n_bytes // 2] * 5)
        numbers = [_number(rng, size) if size else b"\x02\x03\x01\0\x01" for size in sizes]
        return _der(0x30, b"\x02\x01\0" + b"".join(numbers))

    def packed(key: bytes) -> bytes:
        algorithm = bytes.fromhex("300d06092a864886f70d0101010500")
        return _der(0x30, b"\x02\x01\0" + algorithm + _der(4, key))

    point = b"\xa1\x44\x03\x42\0\x04" + rng.randbytes(64)
    curve = b"\xa0\x0a\x06\x08" + bytes.fromhex("2a8648ce3d030107")
    elliptic = _der(0x30, b"\x02\x01\x01\x04\x20" + rng.randbytes(32) + curve + point)
    named = bytes.fromhex("301306072a8648ce3d020106082a8648ce3d030107")
    inner = _der(0x30, b"\x02\x01\x01\x04\x20" + rng.randbytes(32) + point)
    edwards = bytes.fromhex("302e020100300506032b657004220420") + rng.randbytes(32)
    derived = bytes.fromhex("06092a864886f70d01050d") + _der(0x30, rng.randbytes(60))
    encrypted = _der(0x30, _der(0x30, derived) + _der(4, rng.randbytes(1_200)))
    pgp = b"\x95\x03\x98\x04\x65\x8a\x01\x02\x01\x08\0" + rng.randbytes(900)
    return [
        _key("RSA PRIVATE KEY", rsa(256)),
        _key("RSA PRIVATE KEY", rsa(128)),
        _key("PRIVATE KEY", packed(rsa(256))),
        _key("EC PRIVATE KEY", elliptic),
        _key("PRIVATE KEY", _der(0x30, b"\x02\x01\0" + named + _der(4, inner))),
        _key("PRIVATE KEY", edwards),
        _key("ENCRYPTED PRIVATE KEY", encrypted),
        _key("OPENSSH PRIVATE KEY", _openssh(rng), width=70),
        _key("PGP PRIVATE KEY BLOCK", pgp, checksum="=x7Ab"),
    ]


def _openssh(rng: random.Random) -> bytes:
    # PROTOCOL.key: the public half, and n, e, d, iqmp, p, q and a comment.
    def field(data: bytes) -> bytes:
        return len(data).to_bytes(4) + data

    def number(n_bytes: int) -> bytes:
        return field(b"\0" + bytes([0x80 | rng.randrange(128)]) + rng.randbytes(n_bytes - 1))

    modulus, exponent = number(256), field(b"\x01\0\x01")
    public = field(b"ssh-rsa") + exponent + modulus
    others = b"".join(map(number, (256, 128, 128, 128)))
    check = rng.randbytes(4) * 2
    private = (
        check + field(b"ssh-rsa") + modulus + exponent + others + field(b"me@here") + b"\1\2\3"
    )
    names = field(b"none") * 2 + field(b"") + b"\0\0\0\1"
    return b"openssh-key-v1\0" + names + field(public) + field(private)


def _key(label: str, data: bytes, width: int = 64, checksum: str = "") -> MadeKey:
    letters = base64.b64encode(data).decode()
    lines = [letters[start : start + width] for start in range(0, len(letters), width)]
    lines += [checksum] if checksum else []
    markers = f"-----BEGIN {label}-----", f"-----END {label}-----"
    return MadeKey(label, markers[0], tuple(lines), markers[1])


def _der(tag: int, content: bytes) -> bytes:
    n_bytes = len(content)
    if n_bytes < 0x80:
        return bytes([tag, n_bytes]) + content
    length = n_bytes.to_bytes(1 if n_bytes < 0x100 else 2)
    return bytes([tag, 0x80 | len(length)]) + length + content


def _number(rng: random.Random, n_bytes: int) -> bytes:
    return _der(2, b"\0" + bytes([0x80 | rng.randrange(128)]) + rng.randbytes(n_bytes - 1))
