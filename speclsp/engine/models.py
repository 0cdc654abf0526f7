"""Loads the models that the settings name: the target's vocabulary, then the weights.

The vocabulary is loaded apart from the weights, in milliseconds, so that prompts, the project index
and open buffers can be tokenised while the weights are loading and after they were freed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol

from speclsp import embedded
from speclsp.decoding.protocol import Target
from speclsp.drafting.cost import CPU_SLOPE, GPU_SLOPE, PassCost
from speclsp.drafting.protocol import ModelDrafter
from speclsp.drafting.registry import DRAFT_MODEL, drafter_names
from speclsp.engine.draft_model import DraftModelDrafter
from speclsp.engine.draft_vocabulary import (
    SpelledVocabulary,
    TranslatingDrafter,
    check_vocabularies,
    replacement_pairs,
)
from speclsp.engine.params import draft_params, target_params
from speclsp.errors import (
    ModelError,
    ModelLoadError,
    SettingsError,
    SpecLspError,
    VocabularyMismatchError,
)
from speclsp.prompt.families import FimFamily, family_for
from speclsp.prompt.healing import TokenPrefixes
from speclsp.prompt.protocol import Vocabulary
from speclsp.request import LogLevel
from speclsp.settings import Settings

MAX_PROMPT = 2048
"""Prompt tokens where settings and model leave it open: more costs time at every jump."""

EMBEDDED = "embedded"
"""The value of ``spec_draft_model`` that means the one that comes with speclsp."""

_DRAFT_CONTEXT_BYTES: Final = 512 << 20
"""About the KV cache and the intermediate results of a draft model on a GPU."""

COST_OF_KEY: Final = "speclsp.cost_true.cost_of"
"""Metadata of a cost-true model, which computes a small model's function at a large one's cost: the
model whose shape it has."""
TEXT_OF_KEY: Final = "speclsp.cost_true.text_of"
"""Metadata of a cost-true model: the file name of the model whose function it computes."""

Progress = Callable[[float], bool]
"""Takes the share that is loaded, 0 to 1; returns whether to go on."""
Log = Callable[[LogLevel, str], None]


class ClosableTarget(Target, Protocol):
    """A target whose decodes can be stopped and whose memory can be freed."""

    def set_interrupt(self, predicate: Callable[[], bool] | None) -> None:
        """Stop running decodes as soon as ``predicate`` is true; None stops none."""

    def close(self) -> None:
        """Free the weights and the context."""


class ClosableDrafter(ModelDrafter, Protocol):
    """A drafter that owns a model."""

    def set_interrupt(self, predicate: Callable[[], bool] | None) -> None:
        """Stop running decodes as soon as ``predicate`` is true; None stops none."""

    def close(self) -> None:
        """Free the draft model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """The GGUFs that the settings name."""

    target: Path
    draft: Path | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """The target's vocabulary and how its fill-in-the-middle prompts look."""

    vocabulary: Vocabulary
    family: FimFamily
    prefixes: TokenPrefixes


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The loaded models.  They belong to the thread that loaded them."""

    target: ClosableTarget
    draft: ClosableDrafter | None
    description: str
    draft_description: str = ""
    layers: dict[str, int] = field(default_factory=dict)
    supports_rollback: bool = True
    pass_cost: PassCost = field(default_factory=PassCost)
    """What passes take, as they show it."""
    max_prompt: int = MAX_PROMPT
    """Most prompt tokens where the settings leave it open."""
    problems: Sequence[SpecLspError] = ()
    """What went wrong without stopping the rest: a draft model that cannot be used."""

    def set_interrupt(self, predicate: Callable[[], bool] | None) -> None:
        """Stop running decodes of either model as soon as ``predicate`` is true."""
        self.target.set_interrupt(predicate)
        if self.draft is not None:
            self.draft.set_interrupt(predicate)

    def close(self) -> None:
        """Free all models."""
        if self.draft is not None:
            self.draft.close()
        self.target.close()


class Loader(Protocol):
    """Loads what the settings name; both calls run on the engine thread."""

    def tokenizer(self, settings: Settings) -> Tokenizer:
        """Load the target's vocabulary.  Raises a :class:`ModelError` or ``TemplateError``."""

    def weights(
        self,
        settings: Settings,
        tokenizer: Tokenizer,
        progress: Progress,
        log: Log,
    ) -> Weights:
        """Load the weights.  Raises a :class:`ModelError` when the target cannot be used."""


def model_files(settings: Settings) -> ModelFiles:
    """Return the model files that the settings name, the embedded target where they name none."""
    target = Path(settings.model).expanduser() if settings.model else embedded.embedded_target()
    if settings.spec_draft_model == EMBEDDED:
        return ModelFiles(target=target, draft=embedded.embedded_draft())
    draft = Path(settings.spec_draft_model).expanduser() if settings.spec_draft_model else None
    return ModelFiles(target=target, draft=draft)


def wants_draft_model(settings: Settings) -> bool:
    """Whether the settings' drafters include the draft model."""
    return settings.speculation and DRAFT_MODEL in drafter_names(settings.drafters)


class LlamaLoader:
    """Loads GGUFs through llama.cpp, whose own log goes to ``log`` at debug level."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: tuple[object, Tokenizer] | None = None
        self._pass_costs: dict[Hashable, PassCost] = {}
        """What passes of each model take: what one of them showed holds when it comes back."""

    def tokenizer(self, settings: Settings) -> Tokenizer:
        """Load the target's vocabulary alone; again only where the file or the template changed."""
        # Imported here, so that a missing llama.cpp build is an error of this call, with a
        # remedy, and not of every import of the completer.
        from speclsp.engine.llama.library import route_log  # noqa: PLC0415
        from speclsp.engine.llama.vocabulary import load_vocabulary  # noqa: PLC0415

        route_log(lambda level, line: self._log("debug", f"llama.cpp: {level}: {line}"))
        path = model_files(settings).target
        key = (path, _version(path), settings.fim_template)
        if self._known is None or self._known[0] != key:
            vocabulary = load_vocabulary(path)
            tokenizer = Tokenizer(
                vocabulary=vocabulary,
                family=family_for(vocabulary, settings.fim_template),
                prefixes=TokenPrefixes(vocabulary),
            )
            self._known = (key, tokenizer)
        return self._known[1]

    def weights(
        self,
        settings: Settings,
        tokenizer: Tokenizer,
        progress: Progress,
        log: Log,
    ) -> Weights:
        """Load target and draft model; a draft model that fails is among the problems."""
        from speclsp.engine.llama.loading import load_target  # noqa: PLC0415 (see tokenizer)
        from speclsp.engine.llama.model import offload_devices  # noqa: PLC0415

        files = model_files(settings)
        model_params, context_params = target_params(
            settings, model_bytes=files.target.stat().st_size
        )
        draft_path = files.draft if wants_draft_model(settings) else None
        target = load_target(
            files.target,
            model_params,
            context_params,
            fit=settings.fit,
            progress=progress,
            log=log,
            n_bytes_reserved=_draft_bytes(draft_path, settings) if draft_path else 0,
        )
        loaded = (files.target, _version(files.target), model_params, tuple(target.layers.items()))
        # More branches are for speculation alone.
        measured = (*loaded, replace(context_params, n_branches=1), target.n_ctx)
        on_cpu = not offload_devices(model_params)
        pass_cost = self._pass_costs.setdefault(
            measured, PassCost(CPU_SLOPE if on_cpu else GPU_SLOPE)
        )
        problems: list[SpecLspError] = []
        draft: ClosableDrafter | None = None
        if draft_path is not None:
            try:
                draft = load_draft_model(
                    draft_path, settings, tokenizer.vocabulary, target.n_ctx, log
                )
            except ModelError as error:
                problems.append(error)
        return Weights(
            target=target,
            draft=draft,
            description=_description(files.target, target.description),
            draft_description=_description(draft_path) if draft_path and draft else "",
            layers=dict(target.layers),
            supports_rollback=target.supports_rollback,
            pass_cost=pass_cost,
            max_prompt=MAX_PROMPT if settings.model else embedded.MAX_PROMPT,
            problems=problems,
        )


def cost_true_remark(path: Path) -> str:
    """Return whose times and whose text a cost-true model has; empty for an ordinary model.

    Every figure measured with such a model has to say it.

    Raises :class:`~speclsp.errors.ModelError` where the file is no model.
    """
    from speclsp.engine.llama.model_file import read_gguf_header  # noqa: PLC0415 (see tokenizer)

    metadata = read_gguf_header(path).metadata
    cost_of = metadata.get(COST_OF_KEY)
    if cost_of is None:
        return ""
    return f"cost-true: the times of {cost_of}, the text of {metadata.get(TEXT_OF_KEY)}"


def _version(path: Path) -> tuple[int, int] | None:
    """Return what changes when a file does; None where there is none."""
    status = path.stat() if path.is_file() else None
    return status and (status.st_mtime_ns, status.st_size)


def _description(path: Path, *details: str) -> str:
    """Return the name of a model in logs and beside figures measured with it."""
    remarks = "; ".join(part for part in (*details, cost_true_remark(path)) if part)
    return f"{path.name} ({remarks})" if remarks else path.name


def _draft_bytes(path: Path, settings: Settings) -> int:
    """Estimate what the draft model takes of the target's GPUs, so that the target leaves it.

    On the CPU a draft model is rarely worth its time.
    """
    elsewhere = settings.spec_draft_device not in ("", settings.device)
    if elsewhere or settings.spec_draft_ngl == 0 or not path.is_file():
        return 0  # loading the draft model reports a missing file
    return path.stat().st_size + _DRAFT_CONTEXT_BYTES


def load_draft_model(
    path: Path, settings: Settings, vocabulary: Vocabulary, n_ctx_target: int, log: Log
) -> DraftModelDrafter | TranslatingDrafter:
    """Load a draft model for the target model with ``vocabulary`` and ``n_ctx_target`` positions.

    One with another vocabulary drafts through text where the settings have ``spec_replace``.
    Raises :class:`~speclsp.errors.ModelNotFoundError`, :class:`~speclsp.errors.ModelLoadError`,
    or :class:`~speclsp.errors.VocabularyMismatchError`.
    """
    from speclsp.engine.llama.loading import load_target  # noqa: PLC0415 (see tokenizer)
    from speclsp.engine.llama.vocabulary import load_vocabulary  # noqa: PLC0415

    own_vocabulary = load_vocabulary(path)
    try:
        pairs = replacement_pairs(settings.spec_replace)
        model_params, context_params = draft_params(
            settings, n_ctx_target, model_bytes=path.stat().st_size
        )
    except SettingsError as error:
        # A draft model that cannot be used stops nothing else.
        raise ModelLoadError(error.message, remedy=error.remedy) from error
    translated_for = _translated_for(vocabulary, own_vocabulary, pairs)
    model = load_target(
        path,
        model_params,
        context_params,
        fit=settings.fit,
        progress=lambda _share: True,
        log=log,
    )
    if not model.supports_rollback:
        model.close()
        raise ModelLoadError(
            f"The model {path} cannot take tokens back, so it cannot draft.",
            remedy="Take a draft model without recurrent layers.",
        )
    drafter = DraftModelDrafter(
        model,
        n_max=settings.spec_draft_n_max,
        n_min=settings.spec_draft_n_min,
        p_min=settings.spec_draft_p_min,
        n_target_vocab=model.n_vocab if translated_for else vocabulary.n_tokens,
        end_tokens=own_vocabulary.end_tokens if translated_for else vocabulary.end_tokens,
        sampling=settings.draft_sampling,
        log=log,
        n_state_bytes=settings.cache_ram << 20,
    )
    if translated_for is None:
        own_vocabulary.close()
        return drafter
    log("info", "the draft model has another vocabulary: its drafts are translated through text")
    return TranslatingDrafter(drafter, target=translated_for, draft=own_vocabulary, pairs=pairs)


def _translated_for(
    target: Vocabulary, draft: Vocabulary, pairs: Sequence[tuple[str, str]]
) -> SpelledVocabulary | None:
    """Return the target's vocabulary where drafts need translating into it, and None where not.

    Raises :class:`~speclsp.errors.VocabularyMismatchError` where they need it and no pair is set.
    """
    try:
        check_vocabularies(target, draft)
    except VocabularyMismatchError:
        if not pairs or not isinstance(target, SpelledVocabulary):
            raise
        return target
    return None
