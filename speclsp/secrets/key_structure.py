"""Whether bytes are a part of a private key, told by their structure alone.

A key whose beginning was cut off has lost its name, but not its numbers: an RSA key is a row of
large integers that stand one behind another, each led by its length, where a public key or a
certificate has one.  Encrypted keys look drawn at random and cannot be told.

Sources of the forms: RFC 8017 (RSA), RFC 5915 and RFC 5208 (elliptic curves), and OpenSSH's
PROTOCOL.key.
"""

from __future__ import annotations

import re
from typing import Final

_NAMED: Final = re.compile(
    # OpenSSH's magic, and armour that was encoded once more.
    rb"openssh-key-v1\0|PRIVATE KEY"
    # The public point that follows a private scalar: [1] { BIT STRING { 04 … } }.
    rb"|\xa1(?:\x44\x03\x42|\x64\x03\x62|\x81\x89\x03\x81\x86)\0\x04"
    # OpenSSH: the public half is followed by the private one, or the modulus comes first.
    rb"|ssh-ed25519\0\0\0 .{32}\0\0\0@"
    rb"|ssh-rsa\0\0(?:\0[\x40-\xff]|[\x01-\x08].)\0"
    rb"|nistp(?:256\0\0\0A.{65}|384\0\0\0a.{97}|521\0\0\0\x85.{133})\0\0\0[\x1e-\x43]",
    re.DOTALL,
)
_DER_INTEGER: Final = re.compile(rb"\x02[\x1c-\x82]")
_SSH_INTEGER: Final = re.compile(rb"\0\0[\0-\x08]")

_LARGE: Final = 0x50
"""Bytes of an integer that no signature by an elliptic curve has; two of them in a row tell."""
_LEAST: Final = 0x1C
"""Bytes of an integer of which three in a row tell: a signature has two of them."""
_MOST: Final = 0x801
_MARK: Final = 0x80


def is_private_key(data: bytes) -> bool:
    """Whether some of a private key stands in decoded bytes."""
    if _NAMED.search(data) is not None:
        return True
    return any(_is_der_row(data, found.start()) for found in _DER_INTEGER.finditer(data)) or any(
        _is_ssh_row(data, found.start()) for found in _SSH_INTEGER.finditer(data)
    )


def _is_der_row(data: bytes, position: int) -> bool:
    """Whether DER's INTEGERs of a private key stand in a row from a position on."""
    n_large = n_found = 0
    while n_found < 3 and n_large < 2:  # see _LARGE and _LEAST
        start, n_bytes = _der_integer(data, position)
        if not _LEAST <= n_bytes <= _MOST or not _is_positive(data, start):
            return False
        n_found += 1
        n_large += n_bytes >= _LARGE
        position = start + n_bytes
    return True


def _der_integer(data: bytes, position: int) -> tuple[int, int]:
    """Return where an INTEGER's bytes begin and how many they are; 0 where there is none."""
    head = data[position : position + 4]
    if len(head) < 4 or head[0] != 2:  # the tag of INTEGER
        return position, 0
    if head[1] < _MARK:
        return position + 2, head[1]
    if head[1] == _MARK + 1:
        return position + 3, head[2]
    return (position + 4, head[2] << 8 | head[3]) if head[1] == _MARK + 2 else (position, 0)


def _is_ssh_row(data: bytes, position: int) -> bool:
    """Whether two large integers of SSH's encoding stand one behind the other."""
    for _ in range(2):
        n_bytes = int.from_bytes(data[position : position + 4])
        if not _LARGE <= n_bytes <= _MOST or not _is_positive(data, position + 4):
            return False
        position += 4 + n_bytes
    return True


def _is_positive(data: bytes, start: int) -> bool:
    """Whether an integer's first bytes are as short as they can be, and not negative."""
    first = data[start : start + 2]
    return len(first) == 2 and (0 < first[0] < _MARK or (first[0] == 0 and first[1] >= _MARK))
