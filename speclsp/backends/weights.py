"""Loads the models that the settings name: the target's vocabulary first, then the weights.

The vocabulary is loaded separately, in milliseconds.  Prompts, the project index and open buffers
can then be tokenised while the weights load and after they are freed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Protocol, cast

from speclsp import embedded
from speclsp.backends.draft_model import DraftModelDrafter, LoadedTarget
from speclsp.backends.draft_text import SpelledVocabulary, TextCrossing, replacement_pairs
from speclsp.backends.params import check_value_cache, draft_settings
from speclsp.drafting.cost import PassCost
from speclsp.embedded import edit_model_settings, model_files
from speclsp.errors import (
    DecodeInterruptedError,
    EngineLibraryError,
    ModelError,
    ModelLoadError,
    SettingsError,
    SpecLspError,
)
from speclsp.model_title import model_title
from speclsp.prompt.families import FimFamily, family_for
from speclsp.prompt.healing import TokenPrefixes
from speclsp.seam.events import LogLevel
from speclsp.settings import FIELDS, Settings, info, shown_name
from speclsp.vocabulary_protocol import Vocabulary

MAX_PROMPT = 2048
"""Default limit of prompt tokens.  A larger prompt makes every jump to another place slower."""

COST_OF_KEY: Final = "speclsp.cost_true.cost_of"
"""Metadata key of cost-true models, which compute a small model's function at the cost of a large
one: the model whose shape it has."""
TEXT_OF_KEY: Final = "speclsp.cost_true.text_of"
"""Metadata key of cost-true models: the file name of the model whose function it computes."""

_OF_PASSES: Final = tuple(name for name in FIELDS if info(name).group == "models")
"""Settings of the models, on which the time of a pass may depend."""

_DRAFT_MEMORY_REMEDY: Final = (
    "Lower `spec_draft_ctx_size` (`-cd`), quantise the draft model's KV cache (`-ctkd q8_0 "
    "-ctvd q8_0`), keep the draft model on the CPU (`-ngld 0`), choose a smaller one, or use "
    "drafters that need no model."
)

_N_KNOWN: Final = 2
"""Vocabularies that are kept: the target's and the next-edit model's."""

Progress = Callable[[float], bool]
"""Takes the loaded share, 0 to 1; returns whether to continue."""
Log = Callable[[LogLevel, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """The target's vocabulary and the format of its fill-in-the-middle prompts."""

    vocabulary: Vocabulary
    family: FimFamily
    prefixes: TokenPrefixes
    is_estimate: bool = False
    """Whether the vocabulary only estimates that of a remote engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The loaded models.  They belong to the thread that loaded them."""

    target: LoadedTarget
    draft: DraftModelDrafter | None
    description: str
    title: str = ""
    """The target's name in messages."""
    is_trial: bool = False
    """Whether the target is the embedded model."""
    shortfall: str = ""
    """What of the target did not fit the memory, with the remedy."""
    draft_description: str = ""
    layers: dict[str, int] = field(default_factory=dict)
    supports_rollback: bool = True
    """Whether the target can take back any tokens at no cost."""
    pass_cost: PassCost = field(default_factory=PassCost)
    """Measured times of the target's passes."""
    max_prompt: int = MAX_PROMPT
    """Default limit of prompt tokens for this target."""
    problems: Sequence[SpecLspError] = ()
    """Failures that leave the target usable, such as a draft model that cannot be loaded."""
    engine: str = ""
    """The remote engine's kind and host; empty where the target is on this machine."""
    heals: bool = True
    """Whether the target's choice can be restricted, as token healing needs."""
    fields_only: str = ""
    """The remote API where a prompt is prefix and suffix only, and not any text; else empty."""
    find_token: Callable[[str], int | None] | None = None
    """Returns special tokens' ids in place of an estimated vocabulary; 0 where none is told."""
    lacks: Sequence[str] = ()
    """What the remote engine cannot do."""

    def set_interrupt(self, predicate: Callable[[], bool] | None) -> None:
        """Stop running decodes of either model as soon as ``predicate`` is true."""
        self.target.set_interrupt(predicate)
        if self.draft is not None:
            self.draft.set_interrupt(predicate)

    def has_to_settle(self, settings: Settings) -> bool:
        """Whether speculation has a use for idle time."""
        return self.draft is not None or bool(self._untimed(settings))

    def settle(self, settings: Settings, interrupted: Callable[[], bool]) -> bool:
        """Time the target's passes in idle time, and let the draft model read what it has.

        ``interrupted`` is asked between passes.  Return whether all that is done.
        In `mode` auto the draft model reads nothing where its drafts cannot pay, once its times
        are known.  Raises :class:`~speclsp.errors.DecodeError` from the target.
        """
        target, draft, cost = self.target, self.draft, self.pass_cost
        text = tuple(target.cached)
        for n_tokens in self._untimed(settings):
            if interrupted():
                return False
            before = target.ns_native
            try:
                target.decode(text[-n_tokens:], n_tokens)
            except DecodeInterruptedError:
                return False
            cost.observe(n_tokens, (target.ns_native - before) / 1e9)
            target.truncate(len(text))
        if draft is None or not settings.drafts_here:
            return True
        is_auto = settings.mode == "auto"
        return draft.settle(text, lambda: not is_auto or draft.pays(cost.curve, cost.single_s))

    def _untimed(self, settings: Settings) -> tuple[int, ...]:
        """Return the sizes of passes to time; only `mode` auto reads the clock."""
        target, n_text = self.target, len(self.target.cached)
        n_most = min(n_text, target.n_ctx - n_text, target.n_batch)
        if not (self.supports_rollback and settings.drafts_here and settings.mode == "auto"):
            return ()
        return tuple(size for size in self.pass_cost.untimed() if size <= n_most)

    def close(self) -> None:
        """Free all models."""
        if self.draft is not None:
            self.draft.close()
        self.target.close()


class Loader(Protocol):
    """Loads the models that the settings name, on the engine thread."""

    def tokenizer(self, settings: Settings) -> Tokenizer:
        """Load the target's vocabulary.  Raises a :class:`ModelError` or ``TemplateError``."""

    def weights(
        self, settings: Settings, tokenizer: Tokenizer, progress: Progress, log: Log
    ) -> Weights:
        """Load the weights.  Raises a :class:`ModelError` when the target cannot be used."""

    def close(self) -> None:
        """Cancel a connection attempt; any thread may call it."""


class LlamaLoader:
    """Loads GGUFs through llama.cpp and sends llama.cpp's log to ``log`` at debug level."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[Path, tuple[object, Tokenizer]] = {}
        self._pass_costs: dict[Hashable, PassCost] = {}
        """Measured pass times per model and parameters, kept while a model is unloaded."""

    def tokenizer(self, settings: Settings) -> Tokenizer:
        """Load the target's vocabulary; again only where the file or the template changed."""
        # Imported here, so that a missing llama.cpp build is an error of this call, with a
        # remedy, and not of every import of the completer.
        try:
            from speclsp.backends.llama.library import route_log  # noqa: PLC0415
            from speclsp.backends.llama.vocabulary import load_vocabulary  # noqa: PLC0415
        except (ImportError, OSError, RuntimeError) as error:
            raise EngineLibraryError.of(error) from error

        route_log(lambda level, line: self._log("debug", f"llama.cpp: {level}: {line}"))
        path = model_files(settings).target
        key = (path, _version(path), settings.fim_template)
        if path not in self._known or self._known[path][0] != key:
            vocabulary = load_vocabulary(path)
            tokenizer = Tokenizer(
                vocabulary=vocabulary,
                family=family_for(vocabulary, settings.fim_template),
                prefixes=TokenPrefixes(vocabulary),
            )
            self._known.pop(path, None)
            self._known[path] = (key, tokenizer)
            while len(self._known) > _N_KNOWN:
                del self._known[next(iter(self._known))]
        return self._known[path][1]

    def weights(
        self, settings: Settings, tokenizer: Tokenizer, progress: Progress, log: Log
    ) -> Weights:
        """Load target and draft model; an unusable draft model is reported in ``problems``."""
        from speclsp.backends.llama.loading import load_target  # noqa: PLC0415 (see tokenizer)

        path, draft_path, edit_path = model_files(settings)
        if not settings.speculation:
            draft_path = None
        n_bytes_reserved = _draft_bytes(draft_path, settings) if draft_path else 0
        if edit_path is not None:
            n_bytes_reserved += _gpu_bytes(edit_path, edit_model_settings(settings))
        target = load_target(
            path,
            settings,
            progress=progress,
            log=log,
            n_bytes_reserved=n_bytes_reserved,
        )
        _tell_of_experts(settings, "", tokenizer.vocabulary, path, log)
        given = repr([getattr(settings, name) for name in _OF_PASSES])
        placed = (target.n_ctx, *target.model.layers.items())
        pass_cost = self._pass_costs.setdefault(
            (path, _version(path), given, placed),
            PassCost(evaluates_again=target.evaluates_again),
        )
        problems: list[SpecLspError] = []
        draft: DraftModelDrafter | None = None
        if draft_path is not None:
            try:
                draft = load_draft_model(
                    draft_path,
                    settings,
                    tokenizer.vocabulary,
                    target.n_ctx,
                    log,
                    n_bytes_target=target.model.size,
                )
            except ModelError as error:
                problems.append(error)
        remark = cost_true_remark(tokenizer.vocabulary.metadata)
        is_trial = embedded.is_trial(settings)
        title = embedded.TITLE if is_trial else model_title(path.name)
        details = "; ".join(filter(None, (title, remark)))
        return Weights(
            target=target,
            draft=draft,
            description=f"{path.name} ({details})",
            title=title,
            is_trial=is_trial,
            shortfall=target.shortfall,
            draft_description=_draft_description(draft_path, draft),
            layers=dict(target.model.layers),
            supports_rollback=target.supports_rollback,
            pass_cost=pass_cost,
            max_prompt=embedded.MAX_PROMPT if is_trial else MAX_PROMPT,
            problems=problems,
        )

    def close(self) -> None:
        """Do nothing: :meth:`weights` asks ``progress`` whether to go on."""


def cost_true_remark(metadata: Mapping[str, object]) -> str:
    """Return which model's times and whose text a cost-true model has; empty for other models.

    Figures measured with such a model must carry this remark.
    """
    cost_of = metadata.get(COST_OF_KEY)
    if cost_of is None:
        return ""
    return f"cost-true: the times of {cost_of}, the text of {metadata.get(TEXT_OF_KEY)}"


def _tell_of_experts(
    settings: Settings, prefix: str, vocabulary: Vocabulary, path: Path, log: Log
) -> None:
    """Warn where the settings of ``prefix`` place experts of a model that has none."""
    metadata = vocabulary.metadata
    n_experts = metadata.get(f"{metadata.get('general.architecture')}.expert_count", "0")
    for name in (f"{prefix}cpu_moe", f"{prefix}n_cpu_moe"):
        if getattr(settings, name) and n_experts == "0":
            log(
                "warning",
                f"{shown_name(name)} changes nothing: {path.name} is no mixture of experts",
            )


def load_draft_model(
    path: Path,
    settings: Settings,
    vocabulary: Vocabulary,
    n_ctx_target: int,
    log: Log,
    *,
    n_bytes_target: int = 0,
) -> DraftModelDrafter:
    """Load a draft model for the target model with ``vocabulary`` and ``n_ctx_target`` positions.

    ``n_bytes_target`` is the target's size, 0 if unknown.
    If its vocabulary differs, its drafts cross by text.
    Raises :class:`~speclsp.errors.ModelNotFoundError` or :class:`~speclsp.errors.ModelLoadError`.
    """
    from speclsp.backends.llama.loading import load_target  # noqa: PLC0415 (see tokenizer)
    from speclsp.backends.llama.model import offload_devices  # noqa: PLC0415
    from speclsp.backends.llama.vocabulary import load_vocabulary  # noqa: PLC0415

    own_vocabulary = load_vocabulary(path)
    of_draft = draft_settings(settings, n_ctx_target)
    try:
        if settings.spec_draft_device:
            offload_devices(of_draft)
    except ModelLoadError as error:
        log("warning", f"{error} The draft model computes on the CPU.")
        of_draft = replace(of_draft, device="none")
    try:
        pairs = replacement_pairs(settings.spec_replace)
        check_value_cache(settings, "spec_draft_type_v")
        model = load_target(
            path,
            of_draft,
            progress=lambda _share: True,
            log=log,
            memory_remedy=_DRAFT_MEMORY_REMEDY,
        )
    except SettingsError as error:
        # An unusable draft model must not stop the target.
        raise ModelLoadError(error.message, remedy=error.remedy) from error
    if not model.supports_rollback:
        model.close()
        raise ModelLoadError(
            f"The model {path} cannot take tokens back, so it cannot draft.",
            remedy="Choose a draft model without recurrent layers.",
        )
    _tell_of_experts(settings, "spec_draft_", own_vocabulary, path, log)
    return DraftModelDrafter(
        model,
        n_max=settings.spec_draft_n_max,
        n_min=settings.spec_draft_n_min,
        p_min=settings.spec_draft_p_min,
        n_target_vocab=vocabulary.n_tokens,
        log=log,
        n_state_bytes=settings.cache_ram << 20,
        crossing=_crossing(vocabulary, own_vocabulary, pairs, path, log),
        has_gpu=bool(offload_devices(replace(of_draft, device=""))),
        share=model.model.size / n_bytes_target if n_bytes_target else 0.0,
    )


def _crossing(
    vocabulary: Vocabulary,
    of_draft: SpelledVocabulary,
    pairs: Sequence[tuple[str, str]],
    path: Path,
    log: Log,
) -> TextCrossing | None:
    """Return how drafts become the target's tokens; None where they are that already."""
    from speclsp.backends.llama.vocabulary import vocabulary_difference  # noqa: PLC0415

    difference = vocabulary_difference(vocabulary, of_draft)
    if not difference:
        if pairs:
            unused = "spec_replace changes nothing: the draft model has the target's vocabulary"
            log("warning", unused)
        return None
    target = cast("SpelledVocabulary", vocabulary)
    crossing = TextCrossing(target, of_draft, pairs)
    log("info", f"drafts of {path.name} cross by text, since its vocabulary differs: {difference}")
    if not crossing.fills_in:
        log(
            "warning",
            f"{path.name} has no token for the middle of fill-in-the-middle prompts, so that few "
            "drafts will be right: name what it was trained on by `--spec-replace "
            f'"{target.text(target.fim.middle or 0)} STRING"`, or choose a draft model of the '
            "target's family",
        )
    return crossing


def _draft_description(path: Path | None, drafter: DraftModelDrafter | None) -> str:
    if path is None or drafter is None:
        return ""
    return f"{path.name} (by text)" if drafter.crosses_by_text else path.name


def _version(path: Path) -> tuple[int, int] | None:
    """Return modification time and size of a file; None if it does not exist."""
    status = path.stat() if path.is_file() else None
    return status and (status.st_mtime_ns, status.st_size)


def _draft_bytes(path: Path, settings: Settings) -> int:
    """Estimate the GPU memory that the target must leave to the draft model."""
    if settings.spec_draft_device not in ("", settings.device):
        return 0
    try:
        check_value_cache(settings, "spec_draft_type_v")
        of_draft = draft_settings(settings, settings.ctx_size)
    except SpecLspError:
        return 0  # loading the draft model reports it
    return _gpu_bytes(path, of_draft)


def _gpu_bytes(path: Path, settings: Settings) -> int:
    """Estimate the GPU memory of a model that is loaded after the target."""
    from speclsp.backends.llama.fit import gpu_bytes  # noqa: PLC0415 (see tokenizer)
    from speclsp.backends.llama.model_file import read_gguf_header  # noqa: PLC0415

    try:
        return gpu_bytes(read_gguf_header(path), settings)
    except SpecLspError:
        return 0  # loading the model reports it
