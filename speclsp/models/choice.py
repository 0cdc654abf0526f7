"""The models that settings name: a preset, a repository, or a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from speclsp.backends.memory import Memory, find_memory
from speclsp.embedded import EMBEDDED
from speclsp.errors import ModelNotFoundError, SettingsError
from speclsp.model_title import model_title
from speclsp.models.cache import cached_paths, received_bytes
from speclsp.models.presets import (
    AUTO,
    LLAMA_CPP_NAMES,
    PRESETS,
    is_preset,
    preset,
    recommend,
    why_not,
)
from speclsp.models.references import Reference, is_reference, parse_reference
from speclsp.settings import Settings, named_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A target on the hub, perhaps with a draft model."""

    name: str
    """What ``speclsp models pull`` takes."""
    title: str
    """The models' names in messages and lists."""
    target: Reference | None
    """None if only the draft model is on the hub."""
    draft: Reference | None = None
    own_draft: str = ""
    """The draft model's name where the user chose it beside the target."""
    size_bytes: int | None = None
    """Size of the download; None if only the hub knows it."""

    @property
    def references(self) -> tuple[Reference, ...]:
        """The models that must be in the cache."""
        return tuple(one for one in (self.target, self.draft) if one is not None)

    @property
    def is_downloaded(self) -> bool:
        """Whether all of them are in the cache."""
        return all(cached_paths(reference) is not None for reference in self.references)

    @property
    def received_bytes(self) -> int:
        """Bytes of the target that are in the cache, those of an interrupted download included.

        Without those of a draft model, which other choices share.
        """
        return received_bytes(self.target) if self.target is not None else 0

    @property
    def pull_command(self) -> str:
        """The command that downloads all of them."""
        words = ["speclsp models pull"]
        if self.target is not None:
            words.append(f"-hf {self.name}" if self.own_draft and "/" in self.name else self.name)
        return " ".join((*words, *((f"-hfd {self.own_draft}",) if self.own_draft else ())))

    @property
    def serve_options(self) -> str:
        """The options of ``speclsp serve`` that load them."""
        target = f"{'-hf' if '/' in self.name else '--model'} {self.name}"
        words = (target if self.target else "", f"-hfd {self.own_draft}" if self.own_draft else "")
        return " ".join(filter(None, words))

    def files(self) -> dict[Reference, tuple[Path, ...]]:
        """Return each model's files in the cache, the first part first.

        Raises :class:`~speclsp.errors.ModelNotFoundError`, with the command that downloads them.
        """
        found = {one: paths for one in self.references if (paths := cached_paths(one)) is not None}
        if len(found) < len(self.references):
            raise ModelNotFoundError(
                f"{self.title} is not downloaded.",
                remedy=f"Run `{self.pull_command}`.",
            )
        return found


def is_on_hub(name: str) -> bool:
    """Whether a setting of a model names one on the hub, and no file.

    A path of two parts is a repository unless it ends in ``.gguf`` or begins with a dot: the
    working folder of a language server is the workspace's, which must not choose the model.
    """
    is_file = name.lower().endswith(".gguf") and ":" not in name
    return not is_file and (name == AUTO or is_preset(name) or is_reference(name))


def named(name: str, memory: Callable[[], Memory] = find_memory) -> Choice:
    """Return the models of a preset, of ``auto``, or of ``OWNER/NAME[:QUANTIZATION]``.

    Raises :class:`~speclsp.errors.SettingsError`.
    """
    if "/" in name:
        reference = parse_reference(name)
        return Choice(name=name, title=_title(reference), target=reference)
    if name == AUTO:
        name = recommend(memory())
    row = preset(name)
    name = LLAMA_CPP_NAMES.get(name, name)
    return Choice(
        name=name,
        title=row.title,
        target=row.target.reference,
        draft=row.draft.reference if row.draft else None,
        size_bytes=row.size_bytes,
    )


def choice_of(settings: Settings, memory: Callable[[], Memory] = find_memory) -> Choice | None:
    """Return the models on the hub that settings name; None if they name files or nothing.

    With a remote engine models are files only.  A draft model that is named takes precedence over
    that of the target's name.  Raises :class:`~speclsp.errors.SettingsError`.
    """
    if settings.engine_url:
        return None
    target = _named_by(settings.model, memory)
    if not settings.spec_draft_model:
        return target
    draft = _named_by(settings.spec_draft_model, memory)
    if draft is None:
        return replace(target, title=_target_title(target), draft=None) if target else None
    own, title = draft.name, _target_title(draft)
    if target is None:
        return Choice(name=own, title=title, target=None, draft=draft.target, own_draft=own)
    title = f"{_target_title(target)} with {title}"
    return replace(target, title=title, draft=draft.target, own_draft=own, size_bytes=None)


def edit_choice_of(settings: Settings) -> Choice | None:
    """Return the model on the hub that ``edit_model`` names; None if it names a file or nothing.

    Raises :class:`~speclsp.errors.SettingsError`.
    """
    if settings.edit_model == AUTO:
        raise SettingsError(
            "`edit_model` cannot be auto.",
            remedy="`speclsp models recommend` names a model for next edits.",
        )
    choice = _named_by(settings.edit_model, find_memory)
    return replace(choice, title=_target_title(choice), draft=None) if choice is not None else None


def _named_by(value: str, memory: Callable[[], Memory]) -> Choice | None:
    """Return the models of a setting's value; None where it is empty or a file's path.

    Raises :class:`~speclsp.errors.SettingsError` for a word that is neither file nor preset.
    """
    if is_on_hub(value):
        return named(value, memory)
    is_path = value in ("", EMBEDDED) or re.search(r"[/\\]|\.gguf$", value, re.IGNORECASE)
    if not is_path and not named_path(value).is_file():
        preset(value)  # raises, and names what was meant
    return None


def with_paths(settings: Settings, choice: Choice | None) -> Settings:
    """Return settings that name files in the cache instead of target and draft model on the hub.

    Raises :class:`~speclsp.errors.ModelNotFoundError`.
    """
    plain = without_names(settings)
    if choice is None:
        return plain
    files = choice.files()
    return replace(
        plain,
        model=str(files[choice.target][0]) if choice.target else plain.model,
        spec_draft_model=str(files[choice.draft][0]) if choice.draft else plain.spec_draft_model,
    )


def with_edit_path(settings: Settings, choice: Choice | None) -> Settings:
    """Return settings whose ``edit_model`` is the file of a choice in the cache.

    Raises :class:`~speclsp.errors.ModelNotFoundError`.
    """
    if choice is None or choice.target is None:
        return settings
    return replace(settings, edit_model=str(choice.files()[choice.target][0]))


def resolve_models(settings: Settings) -> Settings:
    """Return settings that name files in the cache instead of models on the hub.

    Raises :class:`~speclsp.errors.SpecLspError`.
    """
    resolved = with_paths(settings, choice_of(settings))
    return with_edit_path(resolved, edit_choice_of(settings))


def without_names(settings: Settings) -> Settings:
    """Return settings that name nothing on the hub."""
    model, draft_model = settings.model, settings.spec_draft_model
    return replace(
        settings,
        model="" if is_on_hub(model) else model,
        spec_draft_model="" if is_on_hub(draft_model) else draft_model,
        edit_model="" if is_on_hub(settings.edit_model) else settings.edit_model,
        offline=False,
    )


def preset_rows(memory: Memory) -> list[dict[str, Any]]:
    """Return the table of presets as JSON data, with what fits a memory and what is downloaded."""
    return [
        {
            "name": name,
            "title": row.title,
            "size_bytes": row.size_bytes,
            "licence": ", ".join(dict.fromkeys(file.licence for file in row.files)),
            "tuning": row.target.tuning,
            "memory": row.memory,
            "edits": row.edits,
            "untried": row.untried,
            "fits": not why_not(row, memory),
            "why_not": why_not(row, memory),
            "downloaded": named(name).is_downloaded,
            "received_bytes": named(name).received_bytes,
            "why": row.why,
        }
        for name, row in PRESETS.items()
    ]


def _target_title(choice: Choice) -> str:
    """Return the title without that of a preset's draft model."""
    return choice.title if choice.target is None else _title(choice.target)


def _title(reference: Reference) -> str:
    if reference.file:
        return model_title(reference.file)
    name = reference.repository.rsplit("/", 1)[-1]
    return f"{name} {reference.quantization}".strip()
