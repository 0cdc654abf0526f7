"""The models of one engine: loaded, freed and loaded again, and whether they can complete."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final
from weakref import WeakKeyDictionary

from speclsp.backends.weights import Loader, Progress, Tokenizer, Weights
from speclsp.completer.document_tokens import DocumentTokens
from speclsp.completer.edit_job import EDIT_DRAFTERS
from speclsp.completer.edit_prompts import edit_format
from speclsp.completer.jobs import N_GENERATED, Workbench
from speclsp.completer.target_prompts import N_IDLE_CHUNK, TargetPrompts
from speclsp.drafting.acceptance import AcceptanceTable
from speclsp.drafting.cost import SHAPES
from speclsp.drafting.drafter import TokenArray
from speclsp.drafting.merger import DraftMerger
from speclsp.drafting.proposer import Proposer
from speclsp.drafting.registry import (
    draft_limits,
    draft_model_remark,
    drafter_names,
    given_without_speculation,
    load_drafters,
    most_verified,
    unread_settings,
)
from speclsp.embedded import edit_model_settings
from speclsp.errors import (
    DrafterError,
    EngineError,
    EngineUnavailableError,
    ModelLoadError,
    SettingsError,
    SpecLspError,
)
from speclsp.prompt.families import REWRITING_REMARK, REWRITING_REMEDY, rewrites_regions
from speclsp.seam.events import EventQueue, LoadedModel, ProgressReport, StateChanged
from speclsp.seam.statistics import EngineState, SessionStats
from speclsp.settings import DRAFT_MODEL, FIELDS, Settings, info

_MIB: Final = 1 << 20
_DRAFTING: Final = tuple(name for name in FIELDS if info(name).group == "speculation")
"""What drafters depend on."""
_N_PROPOSERS: Final = 4
"""Most drafting settings whose drafters are kept."""


@dataclass(slots=True, kw_only=True)
class _Served:
    """A loaded model with its vocabulary, the prompts in its KV cache, and what drafts for it."""

    name: str
    """What the settings name, or what the remote engine runs."""
    tokenizer: Tokenizer
    weights: Weights
    prompts: TargetPrompts
    acceptance: AcceptanceTable = field(default_factory=AcceptanceTable)
    """Acceptance rates depend on the models and on the text: counts of other texts made drafts
    worse."""
    generated: WeakKeyDictionary[DocumentTokens, deque[TokenArray]] = field(
        default_factory=WeakKeyDictionary
    )
    """The last texts of each window, which no other window's drafts have."""
    proposers: dict[str, Proposer | None] = field(default_factory=dict)
    """The drafters on the weights by the settings that they were made by."""


class Models:
    """Vocabulary, weights, drafters, and the prompts in the target's KV cache.

    The engine thread loads and frees them; any thread reads their state.
    """

    def __init__(
        self,
        settings: Settings,
        loader: Loader,
        events: EventQueue,
        *,
        use_tokenizer: Callable[[Tokenizer], None],
    ) -> None:
        """``use_tokenizer`` is given each vocabulary with other tokens than the last."""
        self.settings = settings
        """The settings in effect, for the engine thread."""
        self._target: _Served | None = None
        """None where nothing is loaded."""
        self._edits: _Served | None = None
        """The model of `edit_model`; None where the target serves next edits, too."""
        self._loader = loader
        self._events = events
        self._give_tokenizer = use_tokenizer
        self._is_stopped = threading.Event()
        self._tokenizer: Tokenizer | None = None
        self._is_for_drafts = False
        """Whether draft model and trees were loaded; `speculation` may be switched on later."""
        self._n_idle_evaluated = 0
        """Of the targets that were freed."""
        self._reported: set[str] = set()
        self._latest = SessionStats()
        """What was loaded last."""
        self._loaded: LoadedModel | None = None
        self._is_connecting = False
        """Whether a remote engine that failed is about to be asked again."""
        self._lock = threading.RLock()
        self._state: EngineState = "loading"
        self._reason: SpecLspError = EngineUnavailableError("the model is still loading.")

    # --- from any thread ------------------------------------------------------------------------

    @property
    def weights(self) -> Weights | None:
        """The target's; None where nothing is loaded."""
        target = self._target
        return target.weights if target is not None else None

    @property
    def prompts(self) -> TargetPrompts | None:
        """The prompts on the loaded target."""
        target = self._target
        return target.prompts if target is not None else None

    @property
    def state(self) -> EngineState:
        """The engine's state."""
        return self._state

    def stop_loading(self) -> None:
        """Cancel loading, now and later."""
        self._is_stopped.set()
        self._loader.close()

    def availability(self) -> tuple[EngineState, SpecLspError]:
        """Return the state, and the error of a request that it cannot serve."""
        with self._lock:
            # The traceback would grow with each request that raises it.
            return self._state, self._reason.with_traceback(None)

    def wake(self) -> bool:
        """Return whether weights that were freed have to be loaded for a request."""
        with self._lock:
            if self._state != "unloaded":
                return False
            self._set_state("loading", EngineUnavailableError("the model is loading."))
            return True

    def connects_again(self) -> bool:
        """Return whether to connect to a remote engine again that failed."""
        with self._lock:
            if self._state != "failed" or not self.settings.engine_url or self._is_connecting:
                return False
            self._is_connecting = True
            return True

    def statistics(self) -> SessionStats:
        """Return what is loaded, or was loaded last."""
        weights, latest, asked = self.weights, self._latest, self._edits or self._target
        if asked is not None and not asked.weights.engine:  # which might be asked for its tokens
            latest = replace(latest, next_edits=_next_edits(self.settings, asked))
        return replace(
            latest,
            state=self.state,
            n_idle_evaluated=self._all_idle_evaluated(),
            verify_ms=weights.pass_cost.milliseconds if weights is not None else (),
        )

    # --- the engine thread ----------------------------------------------------------------------

    def take_settings(self, settings: Settings, *, reload: bool) -> None:
        """Put settings into effect; ``reload`` frees and loads the models."""
        was_enabled = self.settings.enabled
        self.settings = settings
        if not settings.enabled:
            self.free("off", "switched off")
        elif reload or not was_enabled or self._lacks_drafts(settings):
            self.load_anew()
        elif self._target is not None:
            self._proposer(self._target, settings)

    def load_anew(self) -> None:
        """Free the weights and load them."""
        self.free("loading", "to load it anew")
        self.load()

    def load(self) -> None:
        """Load what the settings name, unless it is there; failures are reported, not raised."""
        if not self.settings.enabled:
            self._set_state("off", EngineUnavailableError("completion is switched off."))
            return
        if self.weights is not None:
            return
        is_remote = bool(self.settings.engine_url)
        if not (is_remote and self._state == "failed"):
            self._set_state("loading", EngineUnavailableError("the model is still loading."))
        report = None
        if not is_remote:
            report = ProgressReport(self._events.emit, "speclsp/load", "Loading the model")
        try:
            self._load(report)
        except Exception as error:  # noqa: BLE001 - the server must outlive any model
            self._load_failed(error)
        finally:
            self._is_connecting = False
            if report is not None:
                report.end()

    def free(self, state: EngineState, why: str) -> None:
        """Free the weights; the vocabulary stays."""
        self._free_weights(why)
        reason = "completion is switched off." if state == "off" else "the model is not loaded."
        self._set_state(state, EngineUnavailableError(reason))

    def close(self) -> None:
        """Free everything for good."""
        self._free_weights("closed")
        self._set_state("off", EngineUnavailableError("completion is switched off."))

    def workbench(
        self, settings: Settings, tokens: DocumentTokens, *, for_edits: bool
    ) -> Workbench:
        """Return what a job with these settings works with; there must be weights.

        ``for_edits`` takes next edits' drafters, and the model of `edit_model` if there is one.
        """
        served = self._target
        if for_edits and self._edits is not None:
            served, settings = self._edits, edit_model_settings(settings)
        assert served is not None
        return Workbench(
            model_name=served.name,
            tokenizer=served.tokenizer,
            weights=served.weights,
            proposer=self._proposer(served, settings, EDIT_DRAFTERS if for_edits else ""),
            tokens=tokens,
            prompts=served.prompts,
            generated=served.generated.setdefault(tokens, deque(maxlen=N_GENERATED)),
            report=self._report_once,
        )

    def forget(self, tokens: DocumentTokens) -> None:
        """Forget what is kept of a window's texts beside its documents.

        Drafters keep texts of all windows, and are made anew.
        """
        for served in filter(None, (self._target, self._edits)):
            served.generated.pop(tokens, None)
            served.proposers.clear()
            served.prompts.forget()

    def _load(self, report: ProgressReport | None) -> None:
        def progress(fraction: float) -> bool:
            if report is not None:
                report.report(fraction)
            return not self._is_stopped.is_set()

        settings = self.settings
        tokenizer = self._loader.tokenizer(settings)
        self._use_tokenizer(tokenizer)
        weights = self._loader.weights(settings, tokenizer, progress, self._events.log)
        self._target = target = _served(settings, tokenizer, weights)
        self._is_for_drafts = settings.speculation
        if settings.edit_model:
            self._load_edit_model(edit_model_settings(settings), progress)
        self._proposer(target, settings)
        if rewrites_regions(target.name):
            self._events.log("warning", f"{weights.title}: {REWRITING_REMARK}. {REWRITING_REMEDY}")
        if weights.draft is not None and (remark := draft_model_remark(settings)):
            self._events.log("info", remark)
        if weights.draft is not None and not weights.is_trial:
            large = weights.draft.large(settings.mode)
            if large is not None:
                self._report_once(large)
        if (unread := given_without_speculation(settings)) is not None:
            self._report_once(unread)
        for problem in weights.problems:
            self._events.problem(problem.message, problem.remedy)
        self._latest = SessionStats(
            model=weights.description,
            draft_model=weights.draft_description,
            layers=weights.layers,
            n_ctx=weights.target.n_ctx,
            engine=weights.engine,
            lacks=tuple(weights.lacks),
            next_edits=_next_edits(settings, self._edits or target),
        )
        self._loaded = LoadedModel(
            title=weights.title or weights.description,
            layers=weights.layers,
            is_trial=weights.is_trial,
            shortfall=weights.shortfall,
        )
        places = (f"{n} layers on {device}" for device, n in weights.layers.items())
        title = self._loaded.title + (", choose a real one" if weights.is_trial else "")
        self._set_state("ready", message=", ".join((title, *places)))

    def _load_edit_model(self, settings: Settings, progress: Progress) -> None:
        """Load a model for next edits alone; one that cannot be used leaves the target usable."""
        try:
            tokenizer = self._loader.tokenizer(settings)
            weights = self._loader.weights(settings, tokenizer, progress, self._events.log)
        except EngineUnavailableError:
            raise  # closed meanwhile
        except SpecLspError as error:
            self._events.problem(f"next edits: {error.message}", error.remedy)
            return
        self._edits = _served(settings, tokenizer, weights)

    def _load_failed(self, error: Exception) -> None:
        if isinstance(error, SpecLspError):
            known = error
        elif isinstance(error, MemoryError) or "can't start new thread" in str(error):
            known = ModelLoadError(
                f"the memory does not suffice to load the model: {error!r}.",
                remedy="Choose a smaller model or quantisation, lower ctx_size, or close other "
                "programs.",
            )
        else:
            known = EngineError(f"loading the model failed: {error!r}.")
        self._free_weights("the model could not be loaded")
        if self._is_stopped.is_set():
            return  # close cancelled the loading
        if (self._state, self._reason.message) == ("failed", known.message):
            return  # a remote engine still does not answer: reported before
        self._set_state("failed", known, message=known.message)
        self._events.problem(known.message, known.remedy)

    def _free_weights(self, why: str) -> None:
        self._n_idle_evaluated = self._all_idle_evaluated()
        target, self._target = self._target, None
        edits, self._edits = self._edits, None
        for served in filter(None, (edits, target)):
            served.weights.close()
        if target is not None:
            self._events.log("info", f"freed the model's memory ({why}).")

    def _proposer(
        self, served: _Served, settings: Settings, own_drafters: str = ""
    ) -> Proposer | None:
        """Return the drafters of the settings on a model.

        Windows may differ in them, and drafters keep what they learned.
        """
        drafting = own_drafters + repr([getattr(settings, name) for name in _DRAFTING])
        if drafting not in served.proposers:
            if len(served.proposers) == _N_PROPOSERS:
                del served.proposers[next(iter(served.proposers))]
            served.proposers[drafting] = make_proposer(
                settings, served.weights, served.acceptance, self._report_once, own_drafters
            )
        return served.proposers[drafting]

    def _lacks_drafts(self, settings: Settings) -> bool:
        """Whether the weights were loaded without what drafts need by these settings."""
        is_local = self.weights is not None and not settings.engine_url
        return is_local and settings.speculation and not self._is_for_drafts

    def _use_tokenizer(self, tokenizer: Tokenizer) -> None:
        old = self._tokenizer
        self._tokenizer = tokenizer
        if old is None or old.vocabulary.fingerprint != tokenizer.vocabulary.fingerprint:
            self._give_tokenizer(tokenizer)

    def _all_idle_evaluated(self) -> int:
        prompts = self.prompts
        return self._n_idle_evaluated + (prompts.n_idle_evaluated if prompts is not None else 0)

    def _report_once(self, problem: SpecLspError) -> None:
        if problem.message not in self._reported:
            self._reported.add(problem.message)
            if isinstance(problem, SettingsError):
                self._events.log("warning", str(problem))
            else:
                self._events.problem(problem.message, problem.remedy)

    def _set_state(
        self, state: EngineState, reason: SpecLspError | None = None, message: str = ""
    ) -> None:
        with self._lock:
            is_changed = state != self._state
            self._state = state
            self._reason = reason or self._reason
            if is_changed or message:
                model = self._loaded if state in ("ready", "unloaded") else None
                self._events.emit(StateChanged(state=state, message=message, model=model))


def _served(settings: Settings, tokenizer: Tokenizer, weights: Weights) -> _Served:
    n_state_bytes = settings.cache_ram * _MIB
    # A remote engine keeps what it evaluated before an interruption.
    n_idle_chunk = weights.target.n_batch if weights.engine else N_IDLE_CHUNK
    return _Served(
        name=f"{'' if weights.engine else settings.model} {weights.title} {weights.description}",
        tokenizer=tokenizer,
        weights=weights,
        prompts=TargetPrompts(weights.target, n_state_bytes, n_idle_chunk),
    )


def _next_edits(settings: Settings, served: _Served) -> str:
    """Return the format of next edits and the model that proposes them, or why there are none."""
    weights = served.weights
    try:
        one = edit_format(settings, served.name, served.tokenizer, weights)
    except SettingsError as error:
        reason = error.message.removeprefix("no next edits: ").removesuffix(".")
        return f"none: {reason} ({weights.description})"
    return f"format {one.name}, {weights.description}"


def make_proposer(
    settings: Settings,
    weights: Weights,
    table: AcceptanceTable,
    report: Callable[[SpecLspError], None],
    own_drafters: str = "",
) -> Proposer | None:
    """Return the drafters of these settings, merged; None for none.  Problems go to ``report``.

    ``table`` holds how often drafts were right with these weights.  ``own_drafters`` are drafted
    with in place of the settings', as long drafts as passes are measured for.
    """
    if not settings.drafts_here:
        return None
    if not weights.target.max_draft:
        why = "`batch_size` is 1, or this model's memory cannot be rolled back"
        report(DrafterError(f"speculation is off: {why}."))
        return None
    if own_drafters:
        n_max = SHAPES[-1] - 1
        settings = replace(settings, drafters=own_drafters, max_draft=n_max)
    drafters, problems = load_drafters(settings, draft_model=weights.draft)
    running = {drafter.name for drafter in drafters}
    unread = unread_settings(settings, running) if not own_drafters else []
    for problem in (*problems, *unread):
        report(problem)
    if not drafters:
        if drafter_names(settings.drafters) == (DRAFT_MODEL,):
            report(
                DrafterError(
                    "nothing drafts: `drafters` names a draft model only, and none is loaded.",
                    remedy="Set `spec_draft_model`, or add a drafter that needs no model, as "
                    "`suffix`.",
                )
            )
        return None
    return DraftMerger(
        drafters,
        table,
        limits=partial(draft_limits, settings),
        mode=settings.mode,
        p_split=settings.p_split,
        n_max=most_verified(settings, running),
    )
