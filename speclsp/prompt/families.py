"""Which prompt template a model's vocabulary has: the table of fill-in-the-middle families.

The first row whose special tokens are all in the vocabulary is used.  For other models the tokens
that the GGUF names are used, if it names any.

Sources of the templates: Qwen2.5-Coder technical report (arXiv 2409.12186), StarCoder 2
(arXiv 2402.19173, section 5.1), DeepSeek-Coder (arXiv 2401.14196), Code Llama (arXiv 2308.12950)
and its reference ``generation.py``, CodeGemma's prompt documentation, Mistral's tokenizer
documentation (FIM of tokenizer V2 and later), Granite Code's and Seed-Coder's model cards,
Mellum-4b-base's model card and technical report (arXiv 2510.05788: suffix, prefix, middle; the path
behind ``<filename>``; Mellum2's as tsugi.nvim's ``format.lua`` writes it), llama.cpp's list of
names in ``llama-vocab.cpp`` (GLM-4.5's tokens) and Zed's list of prompt formats (GLM's order).
docs/models.md names each family's source, and the families without one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from speclsp.errors import NotFimModelError
from speclsp.prompt.template import (
    FieldPart,
    FindToken,
    Part,
    TextPart,
    TokenPart,
    parse_template,
    parse_user_template,
    special_names,
    special_token_of,
)
from speclsp.vocabulary_protocol import Vocabulary

_END_NAMES: Final = (
    "<|endoftext|>",
    "<|im_end|>",
    "<|im_start|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|EOT|>",
    "<EOT>",
    "</s>",
    "<eos>",
    "<\uff5cend\u2581of\u2581sentence\uff5c>",
    "<|repo_name|>",
    "<|file_sep|>",
    "<|file_separator|>",
    "<repo_name>",
    "<file_sep>",
    "<reponame>",
    "<filename>",
    "[PREFIX]",
    "[SUFFIX]",
    "[MIDDLE]",
)
"""Special tokens that code does not contain: a completion ends where one is generated."""

MODELS_WITH_FIM: Final = (
    "Qwen2.5-Coder, Seed-Coder, Mellum, StarCoder2, DeepSeek-Coder, CodeGemma, Code Llama "
    "(7B and 13B), Codestral, Granite Code or Granite 4"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FimFamily:
    """How to write a model's prompts.

    ``body`` is the whole prompt, ``chunk`` one piece of context from another file;
    ``after_chunks`` follows the last chunk, if there are any.
    """

    name: str
    bos: int | None
    """None if the model wants none or the body begins with it."""
    end_tokens: frozenset[int]
    """The vocabulary's, and the special tokens that code does not contain."""
    body: tuple[Part, ...]
    chunk: tuple[Part, ...] = ()
    after_chunks: tuple[Part, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)
    """The names of the special tokens in prompts."""
    found_by: str = "its tokens"
    """How the family was found, in words."""
    end_names: frozenset[str] = frozenset()
    """The names of ``end_tokens`` that are known, which a server may send as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One row of the table.

    If no place for other files is documented, each is part of the prefix, under a line with
    its path.
    """

    name: str
    body: str
    chunk: str = "# {path}\n{text}\n\n"
    after_chunks: str = "# {path}\n"
    of_models: str = ""
    """Pattern of the names of models that the row is for; empty for all that have its tokens."""


_TABLE: Final = (
    _Row(
        name="qwen2.5-coder",
        body="<|repo_name|>{repo}\n{chunks}<|file_sep|>{path}\n"
        "<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}<|fim_middle|>{middle}",
        chunk="<|file_sep|>{path}\n{text}\n",
        after_chunks="",
    ),
    _Row(
        name="codegemma",
        body="{chunks}<|fim_prefix|>{prefix}<|fim_suffix|>{suffix}<|fim_middle|>{middle}",
        chunk="{text}<|file_separator|>",
        after_chunks="",
    ),
    _Row(
        name="starcoder2",
        body="<repo_name>{repo}{chunks}<file_sep>"
        "<fim_prefix>{path}\n{prefix}<fim_suffix>{suffix}<fim_middle>{middle}",
        chunk="<file_sep>{path}\n{text}",
        after_chunks="",
    ),
    # Of the same tokens as the next row's, the first StarCoder's, but in another order.
    _Row(
        name="mellum",
        body="{chunks}<filename>{path}\n"
        "<fim_suffix>{suffix}<fim_prefix>{prefix}<fim_middle>{middle}",
        chunk="<filename>{path}\n{text}\n",
        after_chunks="",
        of_models="mellum",
    ),
    # Granite Code and the first StarCoder have <reponame> and <filename>, but do not document how
    # these go together with fill-in-the-middle.
    _Row(
        name="granite-code",
        body="<fim_prefix>{chunks}{prefix}<fim_suffix>{suffix}<fim_middle>{middle}",
    ),
    _Row(
        name="deepseek-coder",
        body="<\uff5cfim\u2581begin\uff5c>{chunks}{prefix}<\uff5cfim\u2581hole\uff5c>{suffix}"
        "<\uff5cfim\u2581end\uff5c>{middle}",
    ),
    _Row(name="codellama", body="<PRE>{chunks}{prefix}<SUF>{suffix}<MID>{middle}"),
    _Row(
        name="seed-coder",
        body="<[fim-suffix]>{suffix}<[fim-prefix]>{chunks}{prefix}<[fim-middle]>{middle}",
    ),
    _Row(
        name="glm",
        body="<|code_prefix|>{chunks}{prefix}<|code_suffix|>{suffix}<|code_middle|>{middle}",
    ),
    # Granite 4 has Qwen's three tokens, but none for files.
    _Row(
        name="granite-4",
        body="<|fim_prefix|>{chunks}{prefix}<|fim_suffix|>{suffix}<|fim_middle|>{middle}",
        of_models="granite",
    ),
    _Row(
        name="codestral",
        body="[SUFFIX]{suffix}[PREFIX]{chunks}{prefix}{middle}",
        chunk="+++++ {path}\n{text}\n\n",
        after_chunks="+++++ {path}\n",
    ),
)


_BY_ROLE: Final = _Row(
    name="generic",
    body="<fim_prefix>{chunks}{prefix}<fim_suffix>{suffix}<fim_middle>{middle}",
)
_BY_ROLE_WITH_REPOSITORY: Final = _Row(
    name="generic",
    body="<repo_name>{repo}\n{chunks}<file_sep>{path}\n"
    "<fim_prefix>{prefix}<fim_suffix>{suffix}<fim_middle>{middle}",
    chunk="<file_sep>{path}\n{text}\n",
    after_chunks="",
)
"""Templates of models whose GGUF names the tokens; the names are the tokens' roles."""

FIELDS_ONLY: Final = FimFamily(
    name="prefix and suffix",
    bos=None,
    end_tokens=frozenset(),
    body=(FieldPart("chunks"), FieldPart("prefix"), FieldPart("suffix"), FieldPart("middle")),
    chunk=(FieldPart("path"), TextPart("\n"), FieldPart("text")),
)
"""For servers that lay out prefix and suffix themselves: only the token counts matter."""

_NAMED: Final = {
    r"qwen-?(2\.5|3)-?coder|qwen-?3\.[56]": "qwen2.5-coder",
    "mellum": "mellum",
    r"glm-?4": "glm",
    r"granite-?4": "granite-4",
    r"code-?gemma": "codegemma",
    r"star-?coder-?2": "starcoder2",
    r"granite.*code": "granite-code",
    r"deepseek-?coder": "deepseek-coder",
    r"code-?llama": "codellama",
    r"seed-?coder": "seed-coder",
    r"codestral|devstral": "codestral",
}
"""Families by patterns of their models' names."""


_REWRITING: Final = r"\bzeta\b|\bzeta-?[12]|lacuna"
"""Zeta and Lacuna: Zed names Zeta's formats as none of the cursor, and Lacuna's model card marked
regions.  Sweep's models keep Qwen2.5-Coder's fill-in-the-middle; of Instinct nothing was found."""


REWRITING_REMARK: Final = "it was trained to rewrite regions, and not to fill in at the cursor"
REWRITING_REMEDY: Final = "Name it as `edit_model`, and another one as `model`."


def special_names_of_model(name: str) -> frozenset[str]:
    """Return the special tokens of the family that a model's name indicates, if any."""
    spelling = _spelling(name)
    for pattern, family in _NAMED.items():
        if re.search(pattern, spelling):
            row = next(row for row in _TABLE if row.name == family)
            return frozenset(special_names(row.body + row.chunk + row.after_chunks))
    return frozenset()


def rewrites_regions(name: str) -> bool:
    """Return whether a model of this name was trained to rewrite regions, and not to fill a gap."""
    return re.search(_REWRITING, _spelling(name)) is not None


def _spelling(name: str) -> str:
    return name.lower().replace("_", "-").replace(" ", "-")


def prompt_text(
    tokens: Iterable[int], vocabulary: Vocabulary, family: FimFamily, *, bos: str = ""
) -> str:
    """Return a prompt as text, special tokens by their names, the first token's name ``bos``."""
    names = dict(family.names)
    if family.bos is not None:
        names[family.bos] = bos
    pieces = (
        vocabulary.piece(token) or names.get(token, f"<{token}>").encode() for token in tokens
    )
    return b"".join(pieces).decode("utf-8", "replace")


def family_for(vocabulary: Vocabulary, fim_template: str) -> FimFamily:
    """Return a model's family; a ``fim_template`` that is not blank comes before the table.

    Raises :class:`~speclsp.errors.NotFimModelError` if the vocabulary lacks the tokens, and
    :class:`~speclsp.errors.TemplateError` for a template that cannot be read.
    """
    find_token = special_token_of(vocabulary)
    if fim_template.strip():
        body = parse_user_template(fim_template, vocabulary)
        return _family(vocabulary, "template", "fim_template", body)
    model = _spelling(str(vocabulary.metadata.get("general.name", "")))
    for row in _TABLE:
        needed = special_names(row.body + row.chunk)
        if re.search(row.of_models, model) and all(find_token(n) is not None for n in needed):
            found_by = "its tokens and its name" if row.of_models else "its tokens"
            return _family_of_row(vocabulary, row, find_token, found_by)
    return _named_by_gguf(vocabulary)


def _named_by_gguf(vocabulary: Vocabulary) -> FimFamily:
    fim = vocabulary.fim
    roles = {"prefix": fim.prefix, "suffix": fim.suffix, "middle": fim.middle}
    missing = [name for name, token in roles.items() if token is None]
    if missing:
        model = vocabulary.metadata.get("general.name", "")
        named = f"The model {model!r}" if model else "The model"
        examples = ", ".join(f"{name} (such as <|fim_{name}|>)" for name in missing)
        raise NotFimModelError(
            f"{named} cannot fill in the middle: its vocabulary lacks the special tokens "
            f"for {examples}.",
            remedy=f"Choose a model that was trained for it, for example {MODELS_WITH_FIM}; "
            "or, where the model knows other tokens, set fim_template.",
        )
    has_repository = fim.repo is not None and fim.separator is not None
    row = _BY_ROLE_WITH_REPOSITORY if has_repository else _BY_ROLE
    # Code Llama's converters name the ids by these keys, whatever type the tokens have.
    if "tokenizer.ggml.prefix_token_id" in vocabulary.metadata:
        row = replace(row, name="codellama")
    tokens = {f"<fim_{name}>": token for name, token in roles.items()}
    tokens |= {"<repo_name>": fim.repo, "<file_sep>": fim.separator}
    return _family_of_row(vocabulary, row, tokens.get, "the ids of its file")


def _family_of_row(
    vocabulary: Vocabulary, row: _Row, find_token: FindToken, found_by: str
) -> FimFamily:
    # Every family saw SentencePiece's implicit space before the prefix and nowhere else.
    body = [
        replace(part, spaced=True) if part == FieldPart("prefix") else part
        for part in parse_template(row.body, find_token)
    ]
    chunk = parse_template(row.chunk, find_token)
    after_chunks = parse_template(row.after_chunks, find_token)
    return _family(vocabulary, row.name, found_by, body, chunk, after_chunks)


def _family(
    vocabulary: Vocabulary,
    name: str,
    found_by: str,
    body: Sequence[Part],
    chunk: Sequence[Part] = (),
    after_chunks: Sequence[Part] = (),
) -> FimFamily:
    find_token = special_token_of(vocabulary)
    ends = {end: token for end in _END_NAMES if (token := find_token(end)) is not None}
    parts = (*body, *chunk, *after_chunks)
    names = {part.token: part.name for part in parts if isinstance(part, TokenPart)}
    special = (*dataclasses.astuple(vocabulary.fim), *ends.values(), *names)
    has_bos = isinstance(body[0], TokenPart) and body[0].token == vocabulary.bos
    return FimFamily(
        name=name,
        bos=None if has_bos else vocabulary.bos,
        end_tokens=vocabulary.end_tokens | {token for token in special if token is not None},
        body=tuple(body),
        chunk=tuple(chunk),
        after_chunks=tuple(after_chunks),
        names=names,
        found_by=found_by,
        end_names=frozenset(ends).union(names.values()),
    )
