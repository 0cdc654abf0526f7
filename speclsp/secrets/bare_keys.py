"""Private keys without ``-----BEGIN``: cut at either end, or written without markers.

A key is recognised by its first letters, by the marker behind it, by its structure, or by the line
above it.  Other base64 is not masked: images, certificates, checksums.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Iterator
from typing import Final, NamedTuple

from speclsp.secrets.key_blocks import ENDING
from speclsp.secrets.key_runs import (
    LONGEST,
    LONGEST_LINE,
    SOLID,
    Line,
    base64_of,
    is_word,
    letters_at,
    line_at,
    line_before,
    lines_behind,
    looks_drawn,
    start_before,
)
from speclsp.secrets.spans import Span


class _Beginning(NamedTuple):
    """How the base64 of one kind of key begins; ``needle`` stands in all that matches."""

    needle: str
    expression: re.Pattern[str]


def _begins(needle: str, expression: str) -> _Beginning:
    return _Beginning(needle, re.compile(rf"(?:(?<![A-Za-z0-9_])|(?<=\\n)){expression}"))


_BEGINNINGS: Final = (
    _begins("IBAA", r"MI[IG][A-Za-z0-9+/]{1,3}IBAA[JK][A-D]"),  # RSA and DSA, PKCS 1
    _begins("IBAD", r"MII[A-Za-z0-9+/]{3}IBAD(?:A|CC)"),  # PKCS 8
    _begins("AgEAM", r"MI[GH][A-Za-z0-9+/]AgEAM"),  # PKCS 8 of elliptic curves
    _begins("BQYDK2V", r"M[A-Za-z0-9+/]{2}CAQ[AE]wBQYDK2V[n-x]B[CD]"),  # Ed25519 and its like
    _begins("CAQEE", r"M[A-Z][A-Za-z0-9+/]CAQEE[GHI]"),  # elliptic curves, RFC 5915
    _begins("AgEBB", r"MI[GH][A-Za-z0-9+/]AgEBB[DE]"),
    _begins("BgkqhkiG9w0BBQ", r"MII[A-Za-z0-9+/]{2,6}BgkqhkiG9w0BBQ"),  # PKCS 8, encrypted
    _begins("CSqGSIb3DQEF", r"M[A-Za-z0-9+/]{2,6}GCSqGSIb3DQEFDT"),
    _begins("CiqGSIb3DQEMAQ", r"M[A-Za-z0-9+/]{2,6}GCiqGSIb3DQEMAQ"),
    _begins("IBAzCC", r"MII[A-Za-z0-9+/]{3}IBAzCC"),  # PKCS 12
    _begins("b3BlbnNzaC1rZXktdj", r"b3BlbnNzaC1rZXktdj"),  # OpenSSH
    _begins("P2/56wAA", r"P2/56wAA"),  # ssh.com
    _begins("/u3+7QAAAA", r"/u3\+7QAAAA"),  # Java's keystores
    _begins("LS0tLS1CRUdJTi", r"LS0tLS1CRUdJTi"),  # what was armoured, encoded once more
)
_MOST_BEFORE: Final = 9
"""Characters from a beginning to its needle, and the one before the beginning."""
_LEAST_LETTERS: Final = 20

_CANDIDATE: Final = re.compile(r"\n[ \t#*>|;\"'`%,.(){\[\\$/+\-]*+[A-Za-z0-9+/]{40}")
_END: Final = "-----END"

_SECRET_PACKET: Final = re.compile(
    r"l[QR][A-Za-z0-9+/]{2}B[C-H]|l[A-P][A-Za-z0-9+/]E[M-Za-f]"
    r"|x[cd][A-Za-z0-9+/]{2}B[C-H]|x[Q-Zab][A-Za-z0-9+/][EG][M-Za-f]"
)
"""OpenPGP, RFC 9580: tag 5, a length, the version and the year."""
_KNOWN_OTHERS: Final = re.compile(
    r"iVBOR|/9j/|R0lG|UklGR|JVBER|UEsDB|H4sI|AGFzb|d09G|f0VM|TVqQ|AAEAAA|T1RUT|T2dn|SUkq|SUQz"
    r"|AAAAB3Nza|AAAAC3Nza|AAAAE2Vj|PD94|PHN2|PCFE|eyJ|m[QI][A-Za-z0-9+/]{2}B|m(?:DME|FIE|HEE)"
    r"|M(?:FkwEw|HYwEA|IGbMB|FYwEA|CowBQ|CwwBw)|MI.{0,80}(?:AwIBAgI|oAMCAQIC|KADAgEC|AQEFAAO|EBBQADg|BAQUAA4)"
)
"""How the base64 of images, archives, fonts, documents, certificates and public keys begins."""

_OTHER_MARKER: Final = re.compile(r"-----(?:BEGIN|END) (?![A-Z0-9 ]*PRIVATE)")
_PUBLIC: Final = re.compile(
    r"public|pub[_\- ]?key|cert|x509|csr|signature|sha-?\d|md5|hash|digest|checksum|fingerprint"
    r"|image|icon|font|keyword|keyboard|keyframe",
    re.IGNORECASE,
)
_SECRET: Final = re.compile(r"private[\w\- ]{0,20}key|secret|proc-type:|dek-info:", re.IGNORECASE)
_KEY: Final = re.compile(
    r"(?<![A-Za-z])[Kk]ey(?:s|store)?(?![a-z])|[a-z0-9]Key(?:s|[Ss]tore)?(?![a-z])"
    r"|KEY(?:S|STORE)?(?![A-Za-z])"
)
_LONGEST_BESIDE: Final = 300
"""Characters of the lines above and below that are looked at."""
_LEAST_STRUCTURED: Final = 80
_QUANTUM: Final = 4

_MOST_OTHER_LINES: Final = 3
"""Lines between a change and what it affects: a name and a blank line above a key; its last line, a
checksum and a marker below."""


def bare_keys(text: str) -> Iterator[Span]:
    """Yield the keys of a text."""
    yield from _begun(text)
    yield from _ended(text)
    yield from _runs(text)


def part_without_keys(text: str, start: int, end: int) -> Span | None:
    """Return the lines that a change between two places affects, if they can hold no key.

    None if they can: then the whole text must be searched.
    """
    first = text.rfind("\n", max(0, start - LONGEST_LINE), start) + 1
    last = text.find("\n", end, end + LONGEST_LINE)
    last = last if last >= 0 else len(text)
    for _ in range(_MOST_OTHER_LINES):
        first = text.rfind("\n", 0, max(0, first - 1)) + 1
        found = text.find("\n", last + 1)
        last = found if found >= 0 else len(text)
    return (
        None
        if last - first >= LONGEST_LINE or _may_hold_key(text, first, last)
        else Span(first, last)
    )


def _may_hold_key(text: str, first: int, last: int) -> bool:
    """Whether lines hold a key's beginning, its end marker, or one of its lines."""
    if SOLID.search(text, first, last) is None:
        return False
    part = text[first:last]
    if _END in part or any(needle in part for needle, _ in _BEGINNINGS):
        return True
    starts = [0, *(found.end() for found in re.finditer(r"\n", part))]
    return any(line is not None and line.is_solid for line in (line_at(part, s) for s in starts))


def _begun(text: str) -> Iterator[Span]:
    for needle, expression in _BEGINNINGS:
        position = text.find(needle)
        while position >= 0:
            found = expression.search(
                text, max(0, position - _MOST_BEFORE), position + 2 * len(needle) + _MOST_BEFORE
            )
            stop = position + len(needle)
            if found is not None:
                letters = letters_at(text, found.start())
                behind = lines_behind(text, letters, is_beginning=True)
                stop = behind[-1].end if behind else letters.end
                if SOLID.search(text, letters.start, stop) is not None:
                    yield Span(letters.start, stop)
            position = text.find(needle, stop)


def _ended(text: str) -> Iterator[Span]:
    earliest = 0
    position = text.find(_END)
    while position >= 0:
        if ENDING.match(text, position):
            key = Span(start_before(text, earliest, position), position)
            if SOLID.search(text, *key) is not None:
                yield key
        earliest = position + len(_END)
        position = text.find(_END, earliest)


def _runs(text: str) -> Iterator[Span]:
    position = 0
    if parts := _run_at_top(text):
        if _is_key(text, 0, parts):
            yield Span(parts[0].start, parts[-1].end)
        position = parts[-1].end
    while (candidate := _CANDIDATE.search(text, position)) is not None:
        line_start = candidate.start() + 1
        position = candidate.end()
        line = line_at(text, line_start)
        if line is None or not looks_drawn(text[line.letters.start : line.letters.end]):
            continue
        top = _top(text, line)
        parts = _run(text, top or line)
        # Where the run ends above the line that led to it, the search still goes on behind that.
        position = max(position, parts[-1].end)
        is_short_enough = top is not None and parts[-1].end - parts[0].start < LONGEST
        if top is not None and is_short_enough and _is_key(text, top.start, parts):
            yield Span(parts[0].start, parts[-1].end)


def _run_at_top(text: str) -> list[Span]:
    """Return the lines of base64 that a text begins with; the first may be the rest of one."""
    first = line_at(text, 0)
    if first is None:
        return []
    parts = _run(text, first)
    is_first, *is_other = (looks_drawn(text[start:end]) for start, end in parts)
    is_rest = not first.letters.start and any(is_other) and not is_word(text, first.letters)
    return parts if is_first or is_rest else []


def _run(text: str, first: Line) -> list[Span]:
    return [first.letters, *lines_behind(text, first.letters, is_beginning=False)]


def _top(text: str, line: Line) -> Line | None:
    """Return the first of the lines that are as wide as this one; None where it is too far."""
    top = line
    while (above := line_before(text, top.start)) is not None:
        if not above.is_solid or above.width != line.width:
            break
        top = above
        if line.start - top.start > LONGEST:
            return None
    return top


def _is_key(text: str, start: int, parts: list[Span]) -> bool:
    """Whether lines of base64 are a key; ``start`` is where the first of them begins."""
    above, below = _line_above(text, start), _line_below(text, parts[-1].end)
    if _OTHER_MARKER.search(above) is not None:
        return False
    letters = base64_of(text, parts)
    if _SECRET_PACKET.match(letters) is not None or _is_structured(letters):
        return True
    if _KNOWN_OTHERS.match(letters) or _OTHER_MARKER.search(below) or _PUBLIC.search(above):
        return False
    if _SECRET.search(above) is not None:
        return True
    # What begins with the text may have lost its beginning.
    return len(parts) > 1 and (start == 0 or _KEY.search(above) is not None)


def _is_structured(letters: str) -> bool:
    """Whether base64 is a key's by its structure, wherever its groups of letters begin."""
    if len(letters) < _LEAST_STRUCTURED:
        return False
    letters = letters.replace("=", "A")
    for n_skipped in range(_QUANTUM):
        n_whole = (len(letters) - n_skipped) // _QUANTUM * _QUANTUM
        if _is_private_key(a2b_base64(letters[n_skipped : n_skipped + n_whole])):
            return True
    return False


def _line_above(text: str, start: int) -> str:
    """Return the end of the line above, or of the one above that where it is blank."""
    for _ in range(2):
        end = start - 1
        if end < 0:
            return ""
        earliest = max(0, end - _LONGEST_BESIDE)
        start = text.rfind("\n", earliest, end) + 1 or earliest
        if text[start:end].strip():
            return text[start:end]
    return ""


def _line_below(text: str, end: int) -> str:
    """Return the beginning of the line below the one that a position lies on."""
    start = text.find("\n", end, end + LONGEST_LINE) + 1
    if not start:
        return ""
    below = text[start : start + _LONGEST_BESIDE]
    return below.partition("\n")[0]


# --- structure ------------------------------------------------------------------------------------
#
# An RSA key is a row of large integers, each behind its length; a public key or a certificate has
# one.  Encrypted keys look random and are not recognised.
# Sources: RFC 8017 (RSA), RFC 5915 and RFC 5208 (elliptic curves), OpenSSH's PROTOCOL.key.

_STRUCTURES: Final = re.compile(
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

_LARGE_INTEGER: Final = 0x50
"""Bytes of an integer that no signature by an elliptic curve has; two of them in a row tell."""
_LEAST_INTEGER: Final = 0x1C
"""Bytes of an integer of which three in a row tell: a signature has two of them."""
_MOST_INTEGER: Final = 0x801
_MARK: Final = 0x80


def _is_private_key(data: bytes) -> bool:
    """Whether some of a private key stands in decoded bytes."""
    if _STRUCTURES.search(data) is not None:
        return True
    return any(_is_der_row(data, found.start()) for found in _DER_INTEGER.finditer(data)) or any(
        _is_ssh_row(data, found.start()) for found in _SSH_INTEGER.finditer(data)
    )


def _is_der_row(data: bytes, position: int) -> bool:
    """Whether DER's INTEGERs of a private key stand in a row from a position on."""
    n_large = n_found = 0
    while n_found < 3 and n_large < 2:  # see _LARGE_INTEGER and _LEAST
        start, n_bytes = _der_integer(data, position)
        if not _LEAST_INTEGER <= n_bytes <= _MOST_INTEGER or not _is_positive(data, start):
            return False
        n_found += 1
        n_large += n_bytes >= _LARGE_INTEGER
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
        if not _LARGE_INTEGER <= n_bytes <= _MOST_INTEGER or not _is_positive(data, position + 4):
            return False
        position += 4 + n_bytes
    return True


def _is_positive(data: bytes, start: int) -> bool:
    """Whether an integer's first bytes are as short as they can be, and not negative."""
    first = data[start : start + 2]
    return len(first) == 2 and (0 < first[0] < _MARK or (first[0] == 0 and first[1] >= _MARK))
