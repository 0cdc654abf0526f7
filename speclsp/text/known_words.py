"""Words that the document has: what a half-typed one most likely becomes."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from speclsp.text.rules import StopRules

_WORD: Final = re.compile(r"\w+")
_TAIL: Final = re.compile(r"[^\W\d]\w*\Z")

_N_TYPED: Final = 3
"""Letters of a word that tell which one it is to be."""

_N_MISSING: Final = 2
"""At most as many letters are missing of a word that is all but typed."""

_N_TIMES: Final = 2
"""As often does a word stand nearby that is expected to come again."""


def departs_from_known_word(text: str, rules: StopRules) -> bool:
    """Whether ``text`` makes an unknown word of one that was all but typed and known.

    Behind ``itsdangerou`` that is anything but ``s``, where the code nearby has ``itsdangerous``
    and not the other word.
    """
    tail, head = _TAIL.search(rules.line_before), _WORD.match(text)
    if tail is None or head is None or len(tail.group()) < _N_TYPED:
        return False
    typed, word = tail.group(), tail.group() + head.group()
    # The word that is being typed is known no more than it is finished.
    before = rules.code_before.removesuffix(typed)
    known = Counter(_WORD.findall(before + "\n" + rules.line_after + rules.code_after))
    if word in known:
        return False
    longest = len(typed) + _N_MISSING
    return any(
        n_times >= _N_TIMES and len(typed) < len(other) <= longest and other.startswith(typed)
        for other, n_times in known.items()
    )
