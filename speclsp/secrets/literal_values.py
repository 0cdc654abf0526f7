"""Judges of values: whether that of a name such as ``api_key`` or ``password`` is a secret.

The name is not enough: ``token = "comma"`` and ``password = get_password()`` hold none.  A key must
look random; a password may be any word that is no placeholder.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Final

Judge = Callable[[str, bool], bool]
"""Whether a value is a secret; the flag says that its end is not known."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_REFERENCES: Final = re.compile(
    r"""\$\{\{.*?\}\}|\{\{.*?\}\}|\$\{[^}]*\}?|\$\([^)]*\)?|\$\w+|\{[\w.\[\]()!:'"]*\}
    |%\([^)]*\)[sd]|%[A-Za-z_]+%|%[sdr]|<\w[\w+\- ]*>|<%.*?%>|\#\{[^}]*\}""",
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
_ROOTED: Final = re.compile(r"(?:~|\.{1,2})?(?:/[\w.\-]*[A-Za-z_][\w.\-]*){1,}/?")
_PATH: Final = re.compile(rf"{_ROOTED.pattern}|[\w.\-]+(?:/[\w\-]+)*\.\w{{1,5}}")
_RELATIVE: Final = re.compile(r"[\w.\-]+(?:/[\w.\-]+)*")
_SUFFIX: Final = re.compile(
    r"\w\.(?:cfg|conf|crt|csv|db|env|go|gpg|html?|ini|java|js|json|key|md|passw(?:or)?d|pem|php|pl|"
    r"properties|py|rb|rs|secret|sh|sqlite|sql|toml|ts|txt|xml|ya?ml)\Z"
)
"""A password may well have a dot in it, so only known endings make it a file."""
_NO_LITERAL: Final = re.compile(
    r"""
    (?:[~^<>=!v]{0,3}[ ]?\d{1,4}(?:\.(?:\d{1,5}|[x*])){1,4}(?:-?[a-z]{1,8}\.?\d{0,3})?
    (?:[, |-]{1,4}|\Z))+
    |-[A-Za-z]|[:@][a-z_]+|--[A-Za-z][A-Za-z\-]*=?
    |[a-z_]+(?::[\w,./]+)?(?:\|[a-z_]+(?::[\w,./]*)?)+
    |["'][ ]?[.+&].*[.+&][ ]?["']
    |[A-Za-z_]{2,}(?:\.[A-Za-z_]{2,}){2,}
    |\{[A-Za-z_][\w.]*\(.*
    |[a-z][a-z0-9]*(?::[\w\-./]*){3,}
    """,
    re.VERBOSE,
)
"""Versions, options, parameters of SQL, rules of a validation (``required|min:8``), expressions
between two strings (``'.f().'``), dotted names, calls in a template, and names such as
``urn:k8s:secret:db``."""
_HOST_AND_PORT: Final = re.compile(r"[A-Za-z][\w.\-]*:[0-9]{2,5}(?:[,;/].*)?")
_JOINED_WORDS: Final = re.compile(r"[a-z0-9]+(?:[_\-.][a-z0-9]+){2,}", re.IGNORECASE)
_SENTENCE: Final = re.compile(
    r"(?:\S+ +){3}\S.*|[A-Z]\w*(?: +[^\W\d_]+){2,}\W*|(?:\S+ +){2}.*[?:…]"
)
"""A text to show: four words or more, or three that begin with a capital or end in a colon or a
question mark."""
_PASSPHRASE: Final = re.compile(r"[a-z]+(?: [a-z]+){3,}")
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.\-]*://\S*")
_WORDS: Final = re.compile(r"[^\W\d_]+(?:[_\-./ :,'’]{1,2}[^\W\d_]+)*[ .:?!…*]*")
_NUMBERED_WORDS: Final = re.compile(
    r"[a-z]+[0-9]{0,4}(?:[_\-./ ](?:[a-z]+[0-9]{0,4}|[0-9]{1,5}))*", re.IGNORECASE
)
_LABEL: Final = re.compile(
    r"passw|passphrase|\bpwd\b|kennwort|mots?[ _\-]?de[ _\-]?passe|contrase[nñ]|парол|密码|密碼"
    r"|口令",
    re.IGNORECASE,
)
_LABEL_PART: Final = re.compile(rf"{_LABEL.pattern}|(?<![a-z])pass(?![a-z])", re.IGNORECASE)
_LINE_ENDS: Final = re.compile(r"\\+[nr]")
"""Escaped line ends of a key in one literal."""
_KEY_ALPHABET: Final = re.compile(r"[A-Za-z0-9+/=_.~!@#$%^&*:,|?\-]+")
_BEGUN_ALPHABET: Final = re.compile(r"[A-Za-z0-9+/=_.~!@#$%^&*:,|?\-()]+")
_DRAWN: Final = re.compile(r"[\w!@#$%^&*(=+)\-]{30,}", re.ASCII)
"""As Django draws its ``SECRET_KEY``: long, without blanks, brackets, dots and quotes."""
_SIGNS: Final = "!@#$%^&*(=+)"
_LEAST_SIGNS: Final = 4
_BASE64: Final = re.compile(
    r"(?=.*[A-Z].*[A-Z].*[A-Z])(?=.*[a-z].*[a-z].*[a-z])(?=.*[0-9])[A-Za-z0-9+/]{38,}=*"
)
"""A path is written in one case, or as names; base64 of some length mixes both cases and digits."""
_LEAST_SHOWN: Final = 8
"""Characters of a secret that may not be shown."""
_LEAST_BEGUN: Final = 6
_LEAST_ENCODED: Final = 16
_BEGUN_REFERENCE: Final = re.compile(r"\$\{?[\w.\-]*|\{[\w.\-]*|<[\w\- ]*|%[\w()]*")
_RUNS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_ONE_WORD: Final = re.compile(r"[A-Za-z0-9!?@#$%^&*+]+")
_SEGMENTS: Final = re.compile(r"[A-Za-z0-9]+")
_NUMBERED: Final = re.compile(r"\A([a-z]{2,})[0-9]{1,2}\Z")
"""Part of a name such as ``root-ca0``."""
_CAPITALS: Final = re.compile(r"[A-Z]{2}")
_ACRONYM: Final = 4
_UNPRONOUNCED: Final = re.compile(
    r"[b-df-hj-np-tv-xz]{5}|^(?!https?$|html$)[b-df-hj-np-tv-xz]{4,}$"
    r"|^(?!str|scr|spl|spr|thr|chr|sch|shr|phr)[b-df-hj-np-tv-xz]{3}[a-z]*[aeiouy]"
    r"|^(?!19|20)[0-9]{4,}$",
    re.IGNORECASE,
)
_LEAST_KEY: Final = 10
_LEAST_WORD: Final = 8
_LEAST_MIXED: Final = 20
_NAME: Final = re.compile(
    r"[A-Za-z]+[0-9]?(?:[_\-. :/][A-Za-z0-9]+)+|[a-z]+[A-Z]\w*|.*[\s(){}\[\]].*"
)
"""Names: words joined by signs, or ``camelCase``."""
_LEAST_BITS: Final = 2.7
"""Bits of entropy per character; English words of this length have less, or no digits."""


def any_value(value: str, _is_open: bool) -> bool:
    """Whatever stands there is a secret."""
    return bool(value)


def password(value: str, is_open: bool) -> bool:
    """Judge what people choose: placeholders, variables and texts to show do not count.

    ``hid`` may become ``hidden``.  What such words begin with is too short to be worth much.
    """
    if not is_open:
        return _is_password(value)
    rest = value.strip()
    if len(rest) < _LEAST_SHOWN and any(word.startswith(rest.lower()) for word in _NO_VALUES):
        return False
    if rest[:1] in "${<%" and _BEGUN_REFERENCE.fullmatch(rest):
        return False
    return _is_password(value) or _is_begun_label(rest)


def passphrase(value: str, is_open: bool) -> bool:
    """Judge what is chosen by people, or drawn as words."""
    return is_words(value) or password(value, is_open)


def secret_word(value: str, is_open: bool) -> bool:
    """Judge what is drawn at random, or chosen by people, and then has letters and digits."""
    if key(value, is_open):
        return True
    if is_open and len(value) >= _LEAST_BEGUN and _ONE_WORD.fullmatch(value):
        return value.lower() not in _NO_VALUES
    has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    is_word = len(value) >= _LEAST_WORD and has_both and not _NAME.fullmatch(value)
    return is_word and value.isascii() and _is_password(value)


def key(value: str, is_open: bool) -> bool:
    """Judge what is drawn at random."""
    return _is_key(value) or (is_open and _is_begun_key(value))


def encoded(value: str, is_open: bool) -> bool:
    """Judge base64, which comes in groups of four and may begin as a path does."""
    is_whole = len(value) >= _LEAST_ENCODED and len(value) % 4 == 0
    has_all = all(any(map(of, value)) for of in (str.isupper, str.islower, str.isdigit))
    return (is_whole and has_all) or key(value.lstrip("/"), is_open)


def parameter(value: str, is_open: bool) -> bool:
    """Judge a URL's parameter: a seed of capitals reads as words."""
    is_seed = len(value) >= _LEAST_SHOWN and value.isalnum() and value.isupper()
    return is_seed or key(value, is_open) or not reads_as_words(value)


def no_words(value: str, _is_open: bool) -> bool:
    """Judge tokens whose prefix begins other names too."""
    return not reads_as_words(value)


def _is_password(value: str) -> bool:
    rest = _REFERENCES.sub("", value).strip()
    if not any(map(str.isalnum, rest)) or _is_no_value(rest) or _STARS.fullmatch(rest):
        return False
    if _NO_LITERAL.fullmatch(rest) or is_sentence(rest):
        return False
    if _ADDRESS.fullmatch(rest) or _ROOTED.fullmatch(rest) or _is_file(rest):
        return False
    if len(rest) != len(value.strip()) and sum(map(str.isalnum, rest)) < 4:
        return False  # a template with little of its own
    # A label: "Enter your password:" holds words only, and the word itself.
    if _JOINED_WORDS.fullmatch(rest) and _LABEL_PART.search(rest):
        return False
    return not (_WORDS.fullmatch(rest) and _LABEL.search(rest))


def _is_file(text: str) -> bool:
    return _SUFFIX.search(text) is not None and _RELATIVE.fullmatch(text) is not None


def is_sentence(value: str) -> bool:
    """Whether a value is a text to show rather than a password."""
    return _SENTENCE.fullmatch(value) is not None


def _is_no_value(text: str) -> bool:
    return text.lower().rstrip(",;.:)") in _NO_VALUES


def is_words(value: str) -> bool:
    """Whether a value is words alone, as passphrases are drawn."""
    return _PASSPHRASE.fullmatch(value) is not None and not _LABEL.search(value)


def _is_begun_label(value: str) -> bool:
    """Whether words hold "password" as a password may: ``mypassword``, which ``123`` may follow."""
    is_word = len(value) >= _LEAST_SHOWN and " " not in value and value.isalpha()
    return is_word and value.lower() not in _NO_VALUES and value == value.lower()


def _is_begun_key(value: str) -> bool:
    """Whether a value may become a key: its first characters change between cases and digits."""
    if len(value) < _LEAST_BEGUN or not _BEGUN_ALPHABET.fullmatch(value):
        return False
    if _ADDRESS.match(value) or value.lower() in _NO_VALUES or value.startswith(("$(", "${", "{{")):
        return False
    if _is_file(value):
        return False
    return not reads_as_words(value)


def reads_as_words(value: str) -> bool:
    """Whether letters and digits read as words: ``camelCase2``, ``a_name-01``, not ``xK3vR9qa``.

    Of eight letters and digits that are drawn at random less than one in a hundred read so.
    """
    if value[:1].isdigit() or sum(map(value.count, _SIGNS)) > 1:
        return False
    segments = _SEGMENTS.findall(value)
    if len(segments) > 1:
        segments = [_NUMBERED.sub(r"\1", segment) for segment in segments]
    return all(map(_is_word, segments))


def _is_word(segment: str) -> bool:
    runs = _RUNS.findall(segment)
    least_mean = 3 if segment.isalpha() and not _CAPITALS.search(segment) else 4
    is_mixed = any(len(run) >= _ACRONYM for run in runs if run.isupper()) and len(runs) > 1
    if len(runs) > max(1, len(segment) // least_mean) or (is_mixed and segment.isalpha()):
        return False
    return not any(_UNPRONOUNCED.search(run) for run in runs)


def _is_key(value: str) -> bool:
    if _is_drawn(value):
        return True
    rest = _LINE_ENDS.sub("", _REFERENCES.sub("", value)).strip()
    if _BASE64.fullmatch(rest) and rest.count("/") <= len(rest) // 8:
        return True
    if len(rest) < _LEAST_KEY or not _KEY_ALPHABET.fullmatch(rest):
        return False
    if any(form.fullmatch(rest) for form in (_ADDRESS, _NO_LITERAL, _HOST_AND_PORT)):
        return False
    if _PATH.fullmatch(rest) or _NUMBERED_WORDS.fullmatch(rest):
        return False
    has_letter = any(map(str.isalpha, rest))
    has_digit = any(map(str.isdigit, rest)) or _mixes_cases(rest)
    return has_digit and has_letter and _entropy_bits(rest) >= _LEAST_BITS


def _mixes_cases(text: str) -> bool:
    """Whether capitals and small letters are mixed as in random letters, without any digit."""
    n_upper, n_lower = sum(map(str.isupper, text)), sum(map(str.islower, text))
    is_mixed = n_upper + n_lower >= _LEAST_MIXED and 3 * n_upper > n_lower > n_upper / 3
    return is_mixed and 3 * len(_RUNS.findall(text)) > len(text)


def _is_drawn(value: str) -> bool:
    """Whether a value is random letters, digits and signs, as Django's ``SECRET_KEY`` is."""
    n_signs = sum(character in _SIGNS for character in value)
    return n_signs >= _LEAST_SIGNS and _DRAWN.fullmatch(value) is not None


def _entropy_bits(text: str) -> float:
    """Shannon entropy of a text's characters, in bits per character."""
    n_chars = len(text)
    return -sum(n / n_chars * math.log2(n / n_chars) for n in Counter(text).values())
