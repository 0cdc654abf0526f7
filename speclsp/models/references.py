"""Names of models on Hugging Face: ``OWNER/NAME[:QUANTIZATION]``, and which files they mean."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from speclsp.errors import ModelNotFoundError, SettingsError

_REPOSITORY: Final = re.compile(r"(?!.*(?:--|\.\.))\b[\w.-]{1,96}\b/\b[\w.-]{1,96}\b", re.ASCII)
"""Hugging Face's rules for names; with ``--`` two repositories would share a folder."""
_SPLIT: Final = re.compile(r"^(?P<stem>.*)-\d{5}-of-(?P<count>\d{5})\.gguf$", re.IGNORECASE)
_NO_MODELS: Final = ("mmproj", "imatrix", "mtp-", "eagle3-", "dflash-", "dspark-")
"""Parts of the names of GGUFs that belong to a model and are none themselves."""
_PREFERRED: Final = ("Q4_K_M", "Q8_0")
"""Quantizations that are taken where none is named, as llama.cpp does."""
_N_LISTED, _N_SHOWN = 40, 120
"""Most names in a message, and most characters of each."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A model in a repository, by its file, by a quantization, or by the preferred one."""

    repository: str
    quantization: str = ""
    file: str = ""

    def __str__(self) -> str:
        detail = self.file or self.quantization
        return f"{self.repository}:{detail}" if detail else self.repository


def is_reference(text: str) -> bool:
    """Whether a text has the form of ``OWNER/NAME[:QUANTIZATION]``, as ``./NAME`` has not."""
    return _REPOSITORY.fullmatch(text.partition(":")[0]) is not None


def parse_reference(text: str, file: str = "") -> Reference:
    """Parse ``OWNER/NAME[:QUANTIZATION]``; a ``file`` takes precedence over a quantization.

    Raises :class:`~speclsp.errors.SettingsError`.
    """
    repository, _, detail = text.strip().partition(":")
    if not _REPOSITORY.fullmatch(repository):
        raise SettingsError(
            f"{text!r} is not a repository of Hugging Face.",
            remedy="Write OWNER/NAME[:QUANTIZATION], for example "
            "ggml-org/Qwen2.5-Coder-7B-Q8_0-GGUF:Q8_0.",
        )
    if not file and detail.lower().endswith(".gguf"):
        file, detail = detail, ""
    return Reference(repository, "" if file else detail, file)


def parts_of(reference: Reference, names: Sequence[str]) -> tuple[str, ...]:
    """Return the files of a model, the first part first, out of a repository's file ``names``.

    Raises :class:`~speclsp.errors.ModelNotFoundError`, which lists the repository's GGUFs.
    """
    models = sorted(n for n in names if n.lower().endswith(".gguf") and not _goes_with_model(n))
    first = _first_part(reference, models)
    if first is None:
        raise ModelNotFoundError(
            f"{reference.repository} has no {reference.file or reference.quantization or 'GGUF'}.",
            remedy=_choice_of(models),
        )
    split = _SPLIT.match(first)
    if split is None:
        return (first,)
    parts = [n for n in models if (s := _SPLIT.match(n)) and s["stem"] == split["stem"]]
    if len(parts) != int(split["count"]):
        raise ModelNotFoundError(
            f"{reference.repository} has {len(parts)} of the {int(split['count'])} parts of "
            f"{first}.",
            remedy="Choose another file of the repository, or another repository.",
        )
    return tuple(parts)


def _first_part(reference: Reference, models: Sequence[str]) -> str | None:
    if reference.file:
        return reference.file if reference.file in models else None
    wanted = (reference.quantization,) if reference.quantization else _PREFERRED
    for quantization in wanted:
        pattern = re.compile(rf"(?<![A-Za-z0-9]){re.escape(quantization)}[.-]", re.IGNORECASE)
        for name in models:
            if pattern.search(name):
                return name
    return None if reference.quantization or not models else models[0]


def _goes_with_model(name: str) -> bool:
    base = name.rsplit("/", 1)[-1].lower()
    return any(part in base for part in _NO_MODELS)


def _choice_of(models: Sequence[str]) -> str:
    if not models:
        return "Name a repository with GGUF files; those with GGUF in their names have them."
    return f"It has {some_of(models)}."


def some_of(names: Sequence[str]) -> str:
    """Return a list of names as a message shows it: a server may send millions."""
    shown = ", ".join(name[:_N_SHOWN] for name in names[:_N_LISTED])
    return shown + (f" and {len(names) - _N_LISTED} more" if len(names) > _N_LISTED else "")
