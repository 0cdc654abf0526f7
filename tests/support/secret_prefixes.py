"""What is shown of secrets while they are typed."""

from collections.abc import Iterator
from typing import Final

from speclsp.secrets.masked_text import masked
from tests.support.secret_forms import Form

N_SHOWN: Final = 8
"""Characters of a secret of which fewer may be shown; of a shorter one not all of it."""

BEFORE: Final = "import os\n\nx = 1\n"
AFTER: Final = "\n\ny = 2\nprint(x, y)\n"


def shows(secret: str, text: str) -> bool:
    """Whether a text shows too much of a secret."""
    n = min(N_SHOWN, len(secret))
    return any(secret[at : at + n] in text for at in range(len(secret) - n + 1))


def n_shown(secret: str, text: str) -> int:
    """Return how many characters the longest part of a secret has that a text shows."""
    n = 0
    for at in range(len(secret)):
        while at + n < len(secret) and secret[at : at + n + 1] in text:
            n += 1
    return n


def prefixes(form: Form, seed: int, step: int = 1) -> Iterator[tuple[str, str]]:
    """Yield the texts while a form is typed, each ``step`` characters, and its secret so far.

    The form is the last thing of the text, or other lines follow it.
    """
    line, secret = form.drawn(seed)
    start = line.rindex(secret)
    n_least = min(N_SHOWN, len(secret))
    first = start + n_least if form.is_told_before else len(line)
    for n_chars in sorted({*range(first, len(line), step), start + len(secret), len(line)}):
        if n_chars >= first:
            for after in ("", AFTER):
                yield BEFORE + line[:n_chars] + after, secret[: n_chars - start]


def leaks(form: Form, seed: int, step: int = 1) -> list[str]:
    """Return the texts of a form's prefixes that show too much once they are masked."""
    return [
        text
        for text, secret in prefixes(form, seed, step)
        if shows(secret, masked(text, form.name))
    ]
