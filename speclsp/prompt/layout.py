"""The parts of a fill-in-the-middle prompt, and how they are filled in and tokenised.

A layout is a sequence of parts: a special token's id, fixed text, or a field that the request fills
in.  Families (:mod:`speclsp.prompt.families`) and user templates
(:mod:`speclsp.prompt.template`) both come down to a layout, and :func:`filled` fills it in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from speclsp.prompt.protocol import Vocabulary

FieldName = Literal["repo", "path", "text", "chunks", "prefix", "suffix", "middle"]
"""``chunks`` stands for all context from other files, ``text`` for the text of one of them."""


@dataclass(frozen=True, slots=True)
class TokenPart:
    """A special token."""

    token: int


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text that stands in every prompt."""

    text: str


@dataclass(frozen=True, slots=True)
class FieldPart:
    """A place that the request fills in.

    ``spaced``: SentencePiece's implicit leading space was there in training.
    """

    field: FieldName
    spaced: bool = False


Part = TokenPart | TextPart | FieldPart

Values = Mapping[FieldName, str | tuple[int, ...]]
"""A field's text, to be tokenised with its neighbours, or its tokens."""

N_NAME_CHARS: Final = 256
"""Most characters of a path or a repository name; a path keeps its end."""


def has_implicit_space(vocabulary: Vocabulary) -> bool:
    """Whether training put a space before each text (SentencePiece's dummy prefix)."""
    metadata = vocabulary.metadata
    if metadata.get("tokenizer.ggml.model") != "llama":
        return False
    return metadata.get("tokenizer.ggml.add_space_prefix", "true") != "false"


def encode_text(vocabulary: Vocabulary, text: str, *, spaced: bool) -> tuple[int, ...]:
    """Token ids of ``text`` between special tokens, without any implicit space of its own.

    Where the vocabulary's training put a space before each text, ``spaced`` puts it there again:
    Code Llama and Mistral had it before the prefix, but not before suffix and middle.
    """
    text = encodable(text)
    if not text:
        return ()
    if spaced and has_implicit_space(vocabulary):
        text = " " + text
    return tuple(vocabulary.tokenize(text).tolist())


def encodable(text: str) -> str:
    """The text with LF line ends and without lone surrogates, which UTF-8 cannot express."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text


def name_values(repo_name: str, path: str, n_chars: int) -> Values:
    """Return the names as they stand in a prompt, each with so many characters at most."""
    if n_chars == 0:
        return {"repo": "", "path": "", "chunks": ()}
    repo_name, path = one_line(repo_name)[:n_chars], one_line(path)[-n_chars:]
    return {"repo": repo_name or "repository", "path": path or "untitled", "chunks": ()}


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
