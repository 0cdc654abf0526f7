"""Whether the value of a name such as ``api_key`` or ``password`` is a secret.

The name is not enough: ``token = "comma"`` and ``password = get_password()`` hold none.  A key must
look random; a password may be any word that is no placeholder.
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
"""Placeholders for a value that is filled in elsewhere."""

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
_LABEL: Final = re.compile(r"passw|passphrase|\bpwd\b", re.IGNORECASE)
_LINE_ENDS: Final = re.compile(r"\\+[nr]")
"""Escaped line ends of a key in one literal."""
_KEY_ALPHABET: Final = re.compile(r"[A-Za-z0-9+/=_.~!@#$%^&*:,|?\-]+")
_DRAWN: Final = re.compile(r"[\w!@#$%^&*(=+)\-]{30,}", re.ASCII)
"""As Django draws its ``SECRET_KEY``: long, without blanks, brackets, dots and quotes."""
_LEAST_SIGNS: Final = 4
_BASE64: Final = re.compile(
    r"(?=.*[A-Z].*[A-Z].*[A-Z])(?=.*[a-z].*[a-z].*[a-z])(?=.*[0-9])[A-Za-z0-9+/]{38,}=*"
)
"""A path is written in one case, or as names; base64 of some length mixes both cases and digits."""
_LEAST_KEY: Final = 10
_LEAST_WORD: Final = 8
_LEAST_MIXED: Final = 20
_NAME: Final = re.compile(
    r"[A-Za-z]+[0-9]?(?:[_\-. :/][A-Za-z0-9]+)+|[a-z]+[A-Z]\w*|.*[\s(){}\[\]].*"
)
"""Names: words joined by signs, or ``camelCase``."""
_LEAST_BITS: Final = 2.7
"""Bits of entropy per character; English words of this length have less, or no digits."""


def is_password(value: str) -> bool:
    """Whether the value of a name such as ``password`` is a password."""
    rest = _REFERENCES.sub("", value).strip()
    if not any(map(str.isalnum, rest)) or rest.lower() in _NO_VALUES or _STARS.fullmatch(rest):
        return False
    if _ADDRESS.fullmatch(rest) or _PATH.fullmatch(rest):
        return False
    if len(rest) != len(value.strip()) and sum(map(str.isalnum, rest)) < 4:
        return False  # a template with little of its own
    # A label: "Enter your password:" holds words only, and the word itself.
    return not (_WORDS.fullmatch(rest) and _LABEL.search(rest))


def is_key(value: str) -> bool:
    """Whether the value of a name such as ``api_key`` or ``token`` is a key."""
    if is_drawn(value):
        return True
    rest = _LINE_ENDS.sub("", _REFERENCES.sub("", value)).strip()
    if _BASE64.fullmatch(rest) and rest.count("/") <= len(rest) // 8:
        return True
    if len(rest) < _LEAST_KEY or not _KEY_ALPHABET.fullmatch(rest):
        return False
    if _ADDRESS.fullmatch(rest) or _PATH.fullmatch(rest) or _NUMBERED_WORDS.fullmatch(rest):
        return False
    has_letter = any(map(str.isalpha, rest))
    has_digit = any(map(str.isdigit, rest)) or _mixes_cases(rest)
    return has_digit and has_letter and entropy_bits(rest) >= _LEAST_BITS


def _mixes_cases(text: str) -> bool:
    """Whether capitals and small letters are mixed as in random letters, without any digit."""
    n_upper, n_lower = sum(map(str.isupper, text)), sum(map(str.islower, text))
    return n_upper + n_lower >= _LEAST_MIXED and 3 * n_upper > n_lower > n_upper / 3


def is_drawn(value: str) -> bool:
    """Whether a value is random letters, digits and signs, as Django's ``SECRET_KEY`` is."""
    n_signs = sum(character in "!@#$%^&*(=+)" for character in value)
    return n_signs >= _LEAST_SIGNS and _DRAWN.fullmatch(value) is not None


def is_secret_word(value: str) -> bool:
    """Whether the value of a name such as ``client_secret`` is a secret.

    One that was chosen by people has letters and digits.
    """
    has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    is_word = len(value) >= _LEAST_WORD and has_both and not _NAME.fullmatch(value)
    return is_key(value) or (is_word and value.isascii() and is_password(value))


def entropy_bits(text: str) -> float:
    """Shannon entropy of a text's characters, in bits per character."""
    n_chars = len(text)
    return -sum(n / n_chars * math.log2(n / n_chars) for n in Counter(text).values())
