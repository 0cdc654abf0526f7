"""The ``fim_template`` setting: a prompt layout as the user writes it.

For example ``<PRE> {prefix} <SUF>{suffix} <MID>``.  Names of special tokens become their ids,
``{prefix}``, ``{suffix}``, ``{middle}``, ``{repo}`` and ``{path}`` are filled in, everything else
is text; a brace of the text is written twice.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from typing import Final, get_args

from speclsp.errors import TemplateError
from speclsp.prompt.layout import (
    FieldName,
    FieldPart,
    Part,
    TextPart,
    TokenPart,
    has_implicit_space,
)
from speclsp.prompt.protocol import Vocabulary

_FIELDS: Final = ("prefix", "suffix", "middle", "repo", "path")
_FIELD_LIST: Final = ", ".join(f"{{{name}}}" for name in _FIELDS)
_SPECIAL: Final = re.compile(r"<[^<>\s]+>|\[[A-Z][A-Z_]*\]")
"""``<|fim_prefix|>``, ``<PRE>``, ``[SUFFIX]`` …: what looks like a special token's name."""


def template_layout(vocabulary: Vocabulary, template: str) -> tuple[Part, ...]:
    """Read a template.

    ``{middle}`` is where the cursor's line begins; without it that is the end.
    Raises :class:`~speclsp.errors.TemplateError`, which says what is wrong and what to write.
    """
    parts: list[Part] = []
    for literal, name in _pieces(template):
        parts.extend(_literal_parts(vocabulary, literal))
        if name is not None:
            parts.append(FieldPart(_checked_field(name, parts)))
    if FieldPart("prefix") not in parts:
        raise TemplateError(
            f"fim_template {template!r} lacks {{prefix}}.",
            remedy="Write {prefix} where the text before the cursor goes.",
        )
    if FieldPart("middle") not in parts:
        parts.append(FieldPart("middle"))
    if parts[-1] != FieldPart("middle"):
        raise TemplateError(
            f"fim_template {template!r} goes on after {{middle}}, where the model is to write.",
            remedy="Put {middle} at the end, or leave it out.",
        )
    if has_implicit_space(vocabulary):
        parts = _with_implicit_space(parts)
    return tuple(part for part in parts if part != TextPart(""))


def _pieces(template: str) -> Iterator[tuple[str, str | None]]:
    """Literal text and the field that follows it, if any."""
    try:
        for literal, name, spec, conversion in string.Formatter().parse(template):
            if spec or conversion:
                raise TemplateError(
                    f"fim_template has {{{name}!{conversion}:{spec}}}: a field takes no format.",
                    remedy=f"Write one of {_FIELD_LIST}.",
                )
            yield literal, name
    except ValueError as error:
        raise TemplateError(
            f"fim_template {template!r} has a brace without its partner.",
            remedy="Write a brace that belongs to the text twice, as {{ or }}.",
        ) from error


def _checked_field(name: str, parts: list[Part]) -> FieldName:
    for known in get_args(FieldName):
        if name == known and name in _FIELDS:
            if any(isinstance(part, FieldPart) and part.field == name for part in parts):
                raise TemplateError(
                    f"fim_template has {{{name}}} twice.", remedy="Write each field once."
                )
            field: FieldName = known
            return field
    raise TemplateError(
        f"fim_template has the unknown field {{{name}}}.",
        remedy=f"The fields are {_FIELD_LIST}; a brace of the text is written twice.",
    )


def _literal_parts(vocabulary: Vocabulary, literal: str) -> Iterator[Part]:
    position = 0
    for match in _SPECIAL.finditer(literal):
        name = match.group()
        text = literal[position : match.start()]
        token = vocabulary.special(name)
        if token is None:
            # SentencePiece writes the space before a name into the name itself.
            token = vocabulary.special("\u2581" + name)
            text = text.removesuffix(" ")
        if token is None:
            raise TemplateError(
                f"fim_template names the special token {name}, which the model does not have.",
                remedy="Take the names from the model's card or its tokenizer configuration.",
            )
        yield TextPart(text)
        yield TokenPart(token)
        position = match.end()
    yield TextPart(literal[position:])


def _with_implicit_space(parts: list[Part]) -> list[Part]:
    """Let one space written before a field stand for SentencePiece's implicit one."""
    result: list[Part] = []
    for part in parts:
        before = result[-1] if result else None
        if (
            isinstance(part, FieldPart)
            and isinstance(before, TextPart)
            and before.text.endswith(" ")
        ):
            result[-1] = TextPart(before.text[:-1])
            result.append(FieldPart(part.field, spaced=True))
        else:
            result.append(part)
    return result
