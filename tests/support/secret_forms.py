"""Forms of secrets as people and tools write them, of which any number can be drawn.

``tests/support/secrets/`` holds them.  A field of a form says what is drawn: ``{hex:32}``,
``{alnum:24}``, ``{password}``.  The longest drawn text of a line is its secret.
"""

import base64
import random
import string
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from speclsp.secrets.kinds import KINDS

_ALPHABETS: Final = {
    "alnum": string.ascii_letters + string.digits,
    "base64": string.ascii_letters + string.digits + "+/",
    "url": string.ascii_letters + string.digits + "-_",
    "hex": "0123456789abcdef",
    "HEX": "0123456789ABCDEF",
    "upper": string.ascii_uppercase + "234567",
    "lower": string.ascii_lowercase + string.digits,
    "digits": string.digits,
    "bech": "023456789acdefghjklmnpqrstuvwxyz",
    "base58": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "django": "abcdefghijklmnopqrstuvwxyz0123456789!@#$%^&*(-_=+)",
}


class Planted(NamedTuple):
    """``lines`` hold ``secrets`` (texts that may not be found anywhere), in a file ``name``."""

    kind: str
    name: str
    lines: str
    secrets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """A line as it stands in a file ``name``, with fields to be drawn."""

    kind: str
    name: str
    template: str
    is_told_before: bool = True
    """Whether what stands before the secret tells that it is one; else only what follows does."""

    @property
    def is_password(self) -> bool:
        """Whether people choose the secret; else it is drawn at random."""
        return "{password}" in self.template or "{word}" in self.template

    def drawn(self, seed: int) -> tuple[str, str]:
        """Return a line and its secret."""
        line, texts = self._drawn(seed)
        return line, max(texts, key=len)

    def planted(self, seed: int) -> Planted:
        """Return its lines with all secrets that are long enough to be one."""
        lines, texts = self._drawn(seed)
        return Planted(self.kind, self.name, lines, tuple(t for t in texts if len(t) > 6))

    def _drawn(self, seed: int) -> tuple[str, list[str]]:
        draws = _Draws(random.Random(f"{self.kind} {self.name} {self.template} {seed}"))
        line = self.template.format_map(draws)
        return line, [drawn.text for drawn in draws.all]


@dataclass
class _Drawn:
    name: str
    rng: random.Random
    text: str = ""

    def __format__(self, length: str) -> str:
        drawn = self._draw(length)
        self.text = drawn[5:] if self.name == "encoded" else drawn  # "ghp_" is no secret
        return drawn

    def _draw(self, length: str) -> str:
        rng = self.rng
        if self.name == "word":
            return _word(rng)
        if self.name == "password":
            return _word(rng) + str(rng.randint(10, 999)) + rng.choice(["", "!", "#", "?"])
        if self.name == "uuid":
            return "-".join(_from("hex", n, rng) for n in (8, 4, 4, 4, 12))
        if self.name == "snowflake":
            number = str(rng.randrange(10**17, 10**18)).encode()
            encoded = base64.b64encode(number).decode()
            return f"{encoded}.{_from('url', 6, rng)}.{_from('url', 38, rng)}"
        if self.name == "encoded":
            token = f"ghp_{_from('alnum', 36, rng)}"
            return base64.b64encode(token.encode()).decode()
        return _from(self.name, int(length), rng)


@dataclass
class _Draws(dict[str, object]):
    rng: random.Random
    all: list[_Drawn] = field(default_factory=list)

    def __missing__(self, name: str) -> _Drawn:
        self.all.append(_Drawn(name, self.rng))
        return self.all[-1]


def _word(rng: random.Random) -> str:
    return "".join(rng.choice(string.ascii_lowercase) for _ in range(rng.randint(7, 10)))


def _from(name: str, n_chars: int, rng: random.Random) -> str:
    """Draw from an alphabet; a key without any digit is too rare to count on."""
    text = "".join(rng.choice(_ALPHABETS[name]) for _ in range(n_chars - 1))
    return text[: n_chars // 2] + rng.choice("234567") + text[n_chars // 2 :]


def read_forms(file: str) -> list[Form]:
    """Read forms: a file's name, a blank and a line each, behind ``[kind]``; ``⏎`` ends a line."""
    forms: list[Form] = []
    kind, is_told_before = "", True
    rows = (Path(__file__).parent / "secrets" / file).read_text(encoding="utf-8").split("\n")
    for row in rows:
        if row.startswith("["):
            kind, _, told = row[1:].partition("]")
            is_told_before = not told
        elif row and not row.startswith("#"):
            name, _, template = row.partition(" ")
            forms.append(Form(kind, name, template.replace("⏎", "\n"), is_told_before))
    return forms


TOLD_BY_THE_WHOLE: Final = (
    "Mailgun",
    "Mailchimp",
    "Bitcoin",
    "password beside a login",
    "password before what tells",
    "private key of a wallet",
    "password of a driver's address",
)
"""Kinds of which neither a name nor a prefix tells before they are complete, or nearly."""

FORMS: Final = [
    *(
        Form(
            kind.name,
            "v.tf" if kind.n_lines > 2 else "a.sh",
            kind.example,
            kind.name not in TOLD_BY_THE_WHOLE,
        )
        for kind in KINDS
    ),
    *read_forms("forms.txt"),
]
"""An example of each kind, and forms in which earlier versions missed secrets."""

HELD_OUT: Final = read_forms("held_out_forms.txt")
"""Forms that no rule was written for."""

ORDINARY_LINES: Final = [(form.name, form.template) for form in read_forms("ordinary_lines.txt")]
"""Files' names and lines around what the rules look for that hold no secret."""


def planted_secrets(seed: int = 1) -> list[Planted]:
    """Return a hundred made-up secrets of all kinds, in lines as real projects have them."""
    return [form.planted(seed) for form in read_forms("planted.txt")]
