"""Whether a text that is given to a name such as ``api_key`` or ``password`` is a secret itself.

A name is no proof: ``token = "comma"`` and ``password = get_password()`` hold none.  Names of keys
need a value that looks drawn at random; names of passwords need any word of one's own choosing.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_REFERENCES: Final = re.compile(
    r"""\$\{\{.*?\}\}|\{\{.*?\}\}|\$\{[^}]*\}?|\$\([^)]*\)?|\$\w+|\{[\w.\[\]()!:'"]*\}
    |%\([^)]*\)[sd]|%[A-Za-z_]+%|%[sdr]|<[A-Za-z_][\w\- ]*>|\#\{[^}]*\}""",
    re.VERBOSE,
)
"""What stands for a value that is filled in elsewhere."""

_NO_VALUES: Final = _words(
    """
    true false yes no on off null nil none undefined nan string str text hidden required optional
    any object number int bool boolean char bytes void auto default empty unset changeme todo tbd
    redacted masked example value test password passwort passwd pwd passphrase pass secret token
    username user email login name placeholder input new-password current-password readonly plain
    """
)
_STARS: Final = re.compile(r"[*.:xX#?_\-\s\u2022]*")
_PATH: Final = re.compile(
    r"(?:~|\.{1,2})?(?:/[\w.\-]*[A-Za-z_][\w.\-]*){1,}/?|[\w.\-]+(?:/[\w\-]+)*\.\w{1,5}"
)
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.\-]*://\S*")
_WORDS: Final = re.compile(r"[A-Za-z]+(?:[_\-./ :][A-Za-z]+)*[.:]?")
_NUMBERED_WORDS: Final = re.compile(r"[a-z]+[0-9]{0,3}(?:[_\-./ ][a-z]+[0-9]{0,3})*", re.IGNORECASE)
_LINE_ENDS: Final = re.compile(r"\\+[nr]")
"""As a key of several lines has them in one literal."""
_KEY_ALPHABET: Final = re.compile(r"[A-Za-z0-9+/=_.~!@#$%^&*:,|?\-]+")
_LEAST_KEY: Final = 10
_LEAST_BITS: Final = 2.7
"""Bits of entropy per character: English words of this length have less or no digits."""


def is_password(value: str) -> bool:
    """Whether a literal that is given to a name such as ``password`` is one."""
    rest = _REFERENCES.sub("", value).strip()
    if not any(map(str.isalnum, rest)) or rest.lower() in _NO_VALUES or _STARS.fullmatch(rest):
        return False
    if _ADDRESS.fullmatch(rest) or _PATH.fullmatch(rest):
        return False
    if len(rest) != len(value.strip()) and sum(map(str.isalnum, rest)) < 4:
        return False  # a template with little of its own
    # A label: "Enter your password:" holds words only, and the word itself.
    lowered = rest.lower()
    return not (
        _WORDS.fullmatch(rest) and any(w in lowered for w in ("passw", "passphrase", "pwd"))
    )


def is_key(value: str) -> bool:
    """Whether a literal that is given to a name such as ``api_key`` or ``token`` is one."""
    rest = _LINE_ENDS.sub("", _REFERENCES.sub("", value)).strip()
    if len(rest) < _LEAST_KEY or not _KEY_ALPHABET.fullmatch(rest):
        return False
    if _ADDRESS.fullmatch(rest) or _PATH.fullmatch(rest) or _NUMBERED_WORDS.fullmatch(rest):
        return False
    has_digit = any(map(str.isdigit, rest))
    has_letter = any(map(str.isalpha, rest))
    return has_digit and has_letter and entropy_bits(rest) >= _LEAST_BITS


def entropy_bits(text: str) -> float:
    """Shannon entropy of a text's characters, in bits per character."""
    n_chars = len(text)
    return -sum(n / n_chars * math.log2(n / n_chars) for n in Counter(text).values())
