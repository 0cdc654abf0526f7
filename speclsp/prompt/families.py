"""Which special tokens and which order a model's fill-in-the-middle prompt has.

The table below is read top to bottom, and the first row whose tokens the vocabulary all has is
taken.  A model that no row knows is used with the tokens that its GGUF names, if it names any.

Sources of the layouts: Qwen2.5-Coder technical report (arXiv 2409.12186), StarCoder 2
(arXiv 2402.19173, section 5.1), DeepSeek-Coder (arXiv 2401.14196), Code Llama (arXiv 2308.12950)
and its reference ``generation.py``, CodeGemma's prompt documentation, Mistral's tokenizer
documentation (FIM of tokenizer V2 and later), Granite Code's and Seed-Coder's model cards, and
llama.cpp's list of names in ``llama-vocab.cpp``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from speclsp.errors import NotFimModelError
from speclsp.prompt.layout import FieldPart, Part, TextPart, TokenPart
from speclsp.prompt.protocol import FimTokenIds, Vocabulary
from speclsp.prompt.template import template_layout

Order = Literal["prefix-suffix-middle", "suffix-prefix-middle"]

Form = Literal["repository", "repository-in-prefix", "separated", "commented", "plus-headed"]
"""Where the repository's name, the path and context from other files stand.

* ``repository``: ``REPO name \\n SEP path \\n text … SEP path \\n PREFIX …``
* ``repository-in-prefix``: ``REPO name SEP path \\n text … SEP PREFIX path \\n …``
* ``separated``: ``text SEP … PREFIX …``, no names
* ``commented``: inside the prefix, each file under a line ``# path``
* ``plus-headed``: inside the prefix, each file under a line ``+++++ path``

The last three name no file while there is no context from other files.
"""

_END_NAMES = (
    "<|endoftext|>",
    "<|im_end|>",
    "<|im_start|>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|EOT|>",
    "<EOT>",
    "\u2581<EOT>",
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
"""Tokens that no code contains: where one is generated, the middle is over."""

MODELS_WITH_FIM = (
    "Qwen2.5-Coder, StarCoder2, DeepSeek-Coder, CodeGemma, Code Llama (7B and 13B), "
    "Codestral or Granite Code"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FimFamily:
    """How to write a model's prompt.

    ``body`` is the whole layout; ``chunk`` is that of one piece of context from another file,
    and ``after_chunks`` stands once behind them, where there are any.
    """

    name: str
    tokens: FimTokenIds
    order: Order
    bos: int | None
    end_tokens: frozenset[int]
    has_repository: bool
    body: tuple[Part, ...]
    chunk: tuple[Part, ...] = ()
    after_chunks: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of the table; names are texts of special tokens, several where they vary."""

    name: str
    prefix: tuple[str, ...]
    suffix: tuple[str, ...]
    middle: tuple[str, ...] = ()
    repo: tuple[str, ...] = ()
    separator: tuple[str, ...] = ()
    order: Order = "prefix-suffix-middle"
    form: Form = "commented"


_QWEN_NAMES = (("<|fim_prefix|>",), ("<|fim_suffix|>",), ("<|fim_middle|>",))
_STARCODER_NAMES = (("<fim_prefix>",), ("<fim_suffix>",), ("<fim_middle>",))

_TABLE = (
    _Row("qwen2.5-coder", *_QWEN_NAMES, ("<|repo_name|>",), ("<|file_sep|>",), form="repository"),
    _Row("codegemma", *_QWEN_NAMES, (), ("<|file_separator|>",), form="separated"),
    _Row(
        "starcoder2",
        *_STARCODER_NAMES,
        ("<repo_name>",),
        ("<file_sep>",),
        form="repository-in-prefix",
    ),
    # Granite Code and the first StarCoder have <reponame> and <filename>, but neither documents
    # how they go together with fill-in-the-middle.
    _Row("granite-code", *_STARCODER_NAMES),
    _Row(
        "deepseek-coder",
        ("<\uff5cfim\u2581begin\uff5c>",),
        ("<\uff5cfim\u2581hole\uff5c>",),
        ("<\uff5cfim\u2581end\uff5c>",),
    ),
    _Row(
        "codellama",
        ("\u2581<PRE>", "<PRE>"),
        ("\u2581<SUF>", "<SUF>"),
        ("\u2581<MID>", "<MID>"),
    ),
    _Row(
        "seed-coder",
        ("<[fim-prefix]>",),
        ("<[fim-suffix]>",),
        ("<[fim-middle]>",),
        order="suffix-prefix-middle",
    ),
    _Row(
        "codestral",
        ("[PREFIX]",),
        ("[SUFFIX]",),
        order="suffix-prefix-middle",
        form="plus-headed",
    ),
)


def family_for(vocabulary: Vocabulary, fim_template: str) -> FimFamily:
    """The layout for a model; a ``fim_template`` that is not empty goes before the table.

    Raises :class:`~speclsp.errors.NotFimModelError` where the vocabulary lacks the tokens, and
    :class:`~speclsp.errors.TemplateError` for a template that cannot be read.
    """
    if fim_template.strip():
        return _templated(vocabulary, fim_template)
    for row in _TABLE:
        tokens = _tokens_of_row(vocabulary, row)
        if tokens is not None:
            return _family(vocabulary, row.name, tokens, row.order, row.form)
    return _named_by_gguf(vocabulary)


def _templated(vocabulary: Vocabulary, fim_template: str) -> FimFamily:
    body = template_layout(vocabulary, fim_template)
    fields = [part.field for part in body if isinstance(part, FieldPart)]
    suffix_first = "suffix" in fields and fields.index("suffix") < fields.index("prefix")
    used = {part.token for part in body if isinstance(part, TokenPart)}
    starts_with_bos = bool(body) and body[0] == TokenPart(
        -1 if (b := vocabulary.bos) is None else b
    )
    return FimFamily(
        name="template",
        tokens=vocabulary.fim,
        order="suffix-prefix-middle" if suffix_first else "prefix-suffix-middle",
        bos=None if starts_with_bos else vocabulary.bos,
        end_tokens=_end_tokens(vocabulary, vocabulary.fim) | used,
        has_repository="repo" in fields,
        body=body,
        chunk=(TextPart("# "), FieldPart("path"), TextPart("\n"), FieldPart("text")),
    )


def _named_by_gguf(vocabulary: Vocabulary) -> FimFamily:
    tokens = vocabulary.fim
    missing = [
        name
        for name, token in (
            ("prefix", tokens.prefix),
            ("suffix", tokens.suffix),
            ("middle", tokens.middle),
        )
        if token is None
    ]
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
    whole = tokens.repo is not None and tokens.separator is not None
    form: Form = "repository" if whole else "commented"
    # Code Llama's converters name the ids by these keys, whatever type the tokens have.
    is_codellama = "tokenizer.ggml.prefix_token_id" in vocabulary.metadata
    name = "codellama" if is_codellama else "generic"
    return _family(vocabulary, name, tokens, "prefix-suffix-middle", form)


def _tokens_of_row(vocabulary: Vocabulary, row: _Row) -> FimTokenIds | None:
    """The row's token ids, or None where one of the row's tokens is missing."""

    def find(names: tuple[str, ...]) -> int | None:
        for name in names:
            token = vocabulary.special(name)
            if token is not None:
                return token
        return None

    wanted = (row.prefix, row.suffix, row.middle, row.repo, row.separator)
    found = [find(names) for names in wanted]
    if any(names and token is None for names, token in zip(wanted, found, strict=True)):
        return None
    return FimTokenIds(
        prefix=found[0],
        suffix=found[1],
        middle=found[2],
        repo=found[3],
        separator=found[4],
        pad=vocabulary.fim.pad,
    )


def _family(
    vocabulary: Vocabulary, name: str, tokens: FimTokenIds, order: Order, form: Form
) -> FimFamily:
    family = FimFamily(
        name=name,
        tokens=tokens,
        order=order,
        bos=vocabulary.bos,
        end_tokens=_end_tokens(vocabulary, tokens),
        has_repository=form in ("repository", "repository-in-prefix"),
        body=(),
    )
    repo = _token(tokens.repo)
    separator = _token(tokens.separator)
    path_line: tuple[Part, ...] = (FieldPart("path"), TextPart("\n"))
    chunks: tuple[Part, ...] = (FieldPart("chunks"),)
    if form == "repository":
        # REPO name \n, then every file as SEP path \n text, the last one being the middle's.
        head = (*repo, FieldPart("repo"), TextPart("\n"), *chunks, *separator, *path_line)
        chunk = (*separator, *path_line, FieldPart("text"), TextPart("\n"))
        return replace(family, body=(*head, *_core(tokens, order, ())), chunk=chunk)
    if form == "repository-in-prefix":
        head = (*repo, FieldPart("repo"), *chunks, *separator)
        chunk = (*separator, *path_line, FieldPart("text"))
        return replace(family, body=(*head, *_core(tokens, order, path_line)), chunk=chunk)
    if form == "separated":
        body = (*chunks, *_core(tokens, order, ()))
        return replace(family, body=body, chunk=(FieldPart("text"), *separator))
    heading = (TextPart("+++++ " if form == "plus-headed" else "# "), *path_line)
    return replace(
        family,
        body=_core(tokens, order, chunks),
        chunk=(*heading, FieldPart("text"), TextPart("\n\n")),
        after_chunks=heading,
    )


def _core(tokens: FimTokenIds, order: Order, prefix_head: tuple[Part, ...]) -> tuple[Part, ...]:
    """From the first of prefix and suffix to the middle, which always comes last."""
    prefix = (*_token(tokens.prefix), *prefix_head, FieldPart("prefix", spaced=True))
    suffix = (*_token(tokens.suffix), FieldPart("suffix"))
    both = (*prefix, *suffix) if order == "prefix-suffix-middle" else (*suffix, *prefix)
    return (*both, *_token(tokens.middle), FieldPart("middle"))


def _token(token: int | None) -> tuple[Part, ...]:
    return () if token is None else (TokenPart(token),)


def _end_tokens(vocabulary: Vocabulary, tokens: FimTokenIds) -> frozenset[int]:
    fim = (tokens.prefix, tokens.suffix, tokens.middle, tokens.repo, tokens.separator, tokens.pad)
    named = (vocabulary.special(name) for name in _END_NAMES)
    return vocabulary.end_tokens | {token for token in (*fim, *named) if token is not None}
