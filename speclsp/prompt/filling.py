"""A layout's parts filled in: names cut to their room, texts tokenised with their neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from speclsp.errors import SettingsError
from speclsp.prompt.families import FimFamily
from speclsp.prompt.layout import FieldName, FieldPart, Part, TextPart, TokenPart, encode_text
from speclsp.prompt.protocol import Vocabulary

Values = Mapping[FieldName, str | tuple[int, ...]]
"""A field's text, to be tokenised with its neighbours, or its tokens."""

N_NAME_CHARS: Final = 256
"""Most characters of a path or a repository name; a path keeps its end."""


def fitting_names(
    family: FimFamily, vocabulary: Vocabulary, repo_name: str, path: str, n_prompt: int
) -> tuple[Values, int]:
    """Return the names as they stand in a prompt, and the tokens of a prompt without texts.

    They are cut so that these are half of the prompt's at most.
    Raises :class:`~speclsp.errors.SettingsError` where not even the special tokens fit.
    """
    n_chars = N_NAME_CHARS
    while True:
        frame = name_values(repo_name, path, n_chars)
        n_fixed = _n_fixed(family, vocabulary, frame)
        if n_fixed <= n_prompt // 2 or n_chars == 0:
            break
        n_chars //= 2
    if n_fixed > n_prompt:
        raise SettingsError(
            f"n_prompt = {n_prompt} is less than the {n_fixed} tokens that every prompt of this "
            "model has.",
            remedy="Raise n_prompt or ctx_size.",
        )
    return frame, n_fixed


def name_values(repo_name: str, path: str, n_chars: int) -> Values:
    """Return the names as they stand in a prompt, each with so many characters at most."""
    if n_chars == 0:
        return {"repo": "", "path": "", "chunks": ()}
    repo_name, path = one_line(repo_name)[:n_chars], one_line(path)[-n_chars:]
    return {"repo": repo_name or "repository", "path": path or "untitled", "chunks": ()}


def _n_fixed(family: FimFamily, vocabulary: Vocabulary, frame: Values) -> int:
    """Tokens of a prompt whose prefix, middle and suffix are empty."""
    values: Values = {**frame, "prefix": (), "suffix": (), "middle": ()}
    return len(filled(vocabulary, family.body, values)) + (family.bos is not None)


def filled(vocabulary: Vocabulary, parts: Sequence[Part], values: Values) -> tuple[int, ...]:
    """Return the layout's tokens.  Neighbouring texts and names are tokenised as one text."""
    tokens: list[int] = []
    text = ""
    spaced = False
    for part in parts:
        match part:
            case TextPart(literal):
                text += literal
                continue
            case TokenPart(token):
                filling: str | tuple[int, ...] = (token,)
            case FieldPart(field, is_spaced):
                filling = values.get(field, ())
                spaced = spaced or (is_spaced and not text)
        if isinstance(filling, str):
            text += filling
            continue
        tokens.extend(encode_text(vocabulary, text, spaced=spaced and bool(text)))
        tokens.extend(filling)
        text, spaced = "", False
    tokens.extend(encode_text(vocabulary, text, spaced=spaced))
    return tuple(tokens)


def one_line(name: str) -> str:
    """Return a name as it goes into a line of the prompt."""
    return " ".join(name.splitlines())
