"""Prompt templates: special tokens, fixed text and fields that a request fills in.

For example ``<PRE> {prefix} <SUF>{suffix} <MID>``.  The table of families
(:mod:`speclsp.prompt.families`) and the ``fim_template`` setting are written this way.  The names
of special tokens become their ids, ``{prefix}``, ``{suffix}``, ``{middle}``, ``{repo}`` and
``{path}`` are fields, everything else is text; a brace of the text is written twice.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from speclsp.errors import TemplateError
from speclsp.vocabulary_protocol import Vocabulary

FieldName = Literal["repo", "path", "text", "chunks", "prefix", "suffix", "middle"]
"""``chunks`` stands for all context from other files, ``text`` for the text of one of them."""

_USER_FIELDS: Final = ("prefix", "suffix", "middle", "repo", "path")
_FIELD_LIST: Final = ", ".join(f"{{{name}}}" for name in _USER_FIELDS)
_SPECIAL: Final = re.compile(r"<[^<>\s]+>|\[[A-Z][A-Z_]*\]")
"""What looks like the name of a special token: ``<|fim_prefix|>``, ``<PRE>``, ``[SUFFIX]``."""


@dataclass(frozen=True, slots=True)
class TokenPart:
    """A special token and its name in the template."""

    token: int
    name: str


@dataclass(frozen=True, slots=True)
class TextPart:
    """Fixed text."""

    text: str


@dataclass(frozen=True, slots=True)
class FieldPart:
    """A field; ``spaced`` if SentencePiece put its implicit space before it in training."""

    field: FieldName
    spaced: bool = False


Part = TokenPart | TextPart | FieldPart

Values = Mapping[FieldName, str | tuple[int, ...]]
"""The value of each field: text, which is tokenised with its neighbours, or tokens."""

FindToken = Callable[[str], int | None]
"""Returns the id of a special token by its name; None if there is none."""


def has_implicit_space(vocabulary: Vocabulary) -> bool:
    """Whether training put a space before each text (SentencePiece's dummy prefix)."""
    metadata = vocabulary.metadata
    if metadata.get("tokenizer.ggml.model") != "llama":
        return False
    return metadata.get("tokenizer.ggml.add_space_prefix", "true") != "false"


def encode_text(vocabulary: Vocabulary, text: str, *, spaced: bool) -> tuple[int, ...]:
    """Return the tokens of ``text`` between special tokens.

    Line ends become LF, and lone surrogates, which UTF-8 cannot express, question marks.
    ``spaced`` puts the implicit space of training before the text: Code Llama and Mistral had it
    before the prefix, but not before suffix and middle.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = text.encode("utf-8", "replace").decode("utf-8")
    if not text:
        return ()
    if spaced and has_implicit_space(vocabulary):
        text = " " + text
    return tuple(vocabulary.tokenize(text).tolist())


def filled(vocabulary: Vocabulary, parts: Sequence[Part], values: Values) -> tuple[int, ...]:
    """Return the tokens of a template.  Neighbouring texts are tokenised as one text."""
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


def special_names(template: str) -> list[str]:
    """Return the names of special tokens in a template."""
    return _SPECIAL.findall(template)


def parse_template(template: str, find_token: FindToken) -> list[Part]:
    """Read a template.

    Raises :class:`~speclsp.errors.TemplateError`, with a remedy.
    """
    parts: list[Part] = []
    for literal, field in _pieces(template):
        parts.extend(_literal_parts(literal, find_token))
        if field is not None:
            parts.append(FieldPart(field))
    return [part for part in parts if part != TextPart("")]


def parse_user_template(template: str, vocabulary: Vocabulary) -> list[Part]:
    """Read the ``fim_template`` setting.

    ``{middle}`` is where the cursor's line begins; without it that is the end.
    Where training put an implicit space before texts, one space before a field stands for it.
    Raises :class:`~speclsp.errors.TemplateError`, with a remedy.
    """
    parts = parse_template(template, special_token_of(vocabulary))
    fields = [part.field for part in parts if isinstance(part, FieldPart)]
    for field in fields:
        if field not in _USER_FIELDS:
            raise _unknown_field(field)
        if fields.count(field) > 1:
            raise TemplateError(
                f"fim_template has {{{field}}} twice.", remedy="Write each field once."
            )
    if "prefix" not in fields:
        raise TemplateError(
            f"fim_template {template!r} lacks {{prefix}}.",
            remedy="Write {prefix} where the text before the cursor goes.",
        )
    if "middle" not in fields:
        parts.append(FieldPart("middle"))
    if parts[-1] != FieldPart("middle"):
        raise TemplateError(
            f"fim_template {template!r} goes on after {{middle}}, where the model is to write.",
            remedy="Put {middle} at the end, or leave it out.",
        )
    return _with_implicit_space(parts) if has_implicit_space(vocabulary) else parts


def special_token_of(vocabulary: Vocabulary) -> FindToken:
    """Return how to find special tokens by name; SentencePiece writes a space into the name."""

    def find(name: str) -> int | None:
        token = vocabulary.special(name)
        return vocabulary.special("\u2581" + name) if token is None else token

    return find


def _pieces(template: str) -> Iterator[tuple[str, FieldName | None]]:
    """Split a template into literal texts and the fields that follow them."""
    known: dict[str, FieldName] = {name: name for name in get_args(FieldName)}
    try:
        for literal, name, spec, conversion in string.Formatter().parse(template):
            if spec or conversion:
                raise TemplateError(
                    f"fim_template has {{{name}!{conversion}:{spec}}}: a field takes no format.",
                    remedy=f"Write one of {_FIELD_LIST}.",
                )
            if name is not None and name not in known:
                raise _unknown_field(name)
            yield literal, None if name is None else known[name]
    except ValueError as error:
        raise TemplateError(
            f"fim_template {template!r} has a brace without its partner.",
            remedy="Write a brace that belongs to the text twice, as {{ or }}.",
        ) from error


def _unknown_field(name: str) -> TemplateError:
    return TemplateError(
        f"fim_template has the unknown field {{{name}}}.",
        remedy=f"The fields are {_FIELD_LIST}; a brace of the text is written twice.",
    )


def _literal_parts(literal: str, find_token: FindToken) -> Iterator[Part]:
    position = 0
    for match in _SPECIAL.finditer(literal):
        name = match.group()
        token = find_token(name)
        if token is None:
            raise TemplateError(
                f"fim_template names the special token {name}, which the model does not have.",
                remedy="Take the names from the model's card or its tokenizer configuration.",
            )
        yield TextPart(literal[position : match.start()])
        yield TokenPart(token, name)
        position = match.end()
    yield TextPart(literal[position:])


def _with_implicit_space(parts: list[Part]) -> list[Part]:
    """Let a space before a field or a special token stand for SentencePiece's implicit one."""
    result: list[Part] = []
    for part in parts:
        before = result[-1] if result else None
        if isinstance(before, TextPart) and before.text.endswith(" "):
            result[-1] = TextPart(before.text[:-1])
            result.append(replace(part, spaced=True) if isinstance(part, FieldPart) else part)
        else:
            result.append(part)
    return [part for part in result if part != TextPart("")]
