"""When the models are loaded, freed and loaded again, and whether they can serve."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from speclsp.completer.events import EventQueue, ProgressReport
from speclsp.completer.loaded_models import LoadedModels
from speclsp.errors import EngineError, EngineUnavailableError, SpecLspError
from speclsp.request import EngineState, StateChanged
from speclsp.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedModel:
    """Descriptions of what was loaded last, layers per device and the context's size."""

    model: str = ""
    draft_model: str = ""
    layers: dict[str, int] = field(default_factory=dict)
    n_ctx: int = 0


class ModelLife:
    """The state of one engine's models.  The engine thread changes it, any thread reads it.

    ``abandon`` fails the completions that wait where there will be no model to serve them.
    """

    def __init__(
        self,
        models: LoadedModels,
        settings: Settings,
        events: EventQueue,
        *,
        abandon: Callable[[SpecLspError], None],
        closing: Callable[[], bool],
    ) -> None:
        self.settings = settings
        """Those in effect; the engine thread reads and writes them."""
        self._models = models
        self._events = events
        self.loaded = LoadedModel()
        self._abandon = abandon
        self._closing = closing
        self._lock = threading.Lock()
        self._state: EngineState = "loading"
        self._reason: SpecLspError = EngineUnavailableError("the model is still loading.")

    # --- from any thread ------------------------------------------------------------------------

    @property
    def state(self) -> EngineState:
        """What the engine is doing."""
        return self._state

    def availability(self) -> tuple[EngineState, SpecLspError]:
        """Return the state, and what to tell a request that it cannot serve."""
        with self._lock:
            return self._state, self._reason

    def wake(self) -> bool:
        """Note that freed weights are wanted; True for the first who wants them."""
        with self._lock:
            if self._state != "unloaded":
                return False
            self._set_state_locked("loading", EngineUnavailableError("the model is loading."))
            return True

    # --- the engine thread ----------------------------------------------------------------------

    def take_settings(self, settings: Settings, *, reload: bool) -> None:
        """Put settings into effect; ``reload`` frees and loads the models."""
        was_enabled = self.settings.enabled
        self.settings = settings
        if not settings.enabled:
            self.free("off", "switched off")
        elif reload or not was_enabled:
            self.load_anew()
        else:
            self._models.make_proposer(settings)

    def load_anew(self) -> None:
        """Free the weights and load them."""
        self.free("loading", "to load it anew")
        self.load()

    def load(self) -> None:
        """Load what the settings name, unless it is there; failures are reported, not raised."""
        if not self.settings.enabled:
            self._set_state("off", EngineUnavailableError("completion is switched off."))
            return
        if self._models.weights is not None:
            return
        self._set_state("loading", EngineUnavailableError("the model is still loading."))
        report = ProgressReport(self._events, "speclsp/load", "Loading the model")
        try:
            self._load_models(report)
        except Exception as error:  # noqa: BLE001 - the server must outlive any model
            self._load_failed(error)
        finally:
            report.end()

    def free(self, state: EngineState, why: str) -> None:
        """Free the weights."""
        self._models.free(why)
        reason = "completion is switched off." if state == "off" else "the model is not loaded."
        self._set_state(state, EngineUnavailableError(reason))
        if state == "off":
            self._abandon(EngineUnavailableError(reason))

    def close(self) -> None:
        """Free everything for good."""
        self._models.close()
        self._set_state("off", EngineUnavailableError("completion is switched off."))

    def _load_models(self, report: ProgressReport) -> None:
        def progress(fraction: float) -> bool:
            report.report(fraction)
            return not self._closing()

        weights = self._models.load(self.settings, progress)
        self.loaded = LoadedModel(
            model=weights.description,
            draft_model=weights.draft_description,
            layers=weights.layers,
            n_ctx=weights.target.n_ctx,
        )
        places = ", ".join(f"{n} layers on {device}" for device, n in weights.layers.items())
        self._set_state("ready", message=f"{weights.description}: {places}")

    def _load_failed(self, error: Exception) -> None:
        known = (
            error
            if isinstance(error, SpecLspError)
            else EngineError(f"loading the model failed: {error!r}.")
        )
        self._models.free("the model could not be loaded")
        self._set_state("failed", known, message=known.message)
        self._events.problem(known.message, known.remedy)
        self._abandon(known)

    def _set_state(
        self, state: EngineState, reason: SpecLspError | None = None, message: str = ""
    ) -> None:
        with self._lock:
            self._set_state_locked(state, reason, message)

    def _set_state_locked(
        self, state: EngineState, reason: SpecLspError | None = None, message: str = ""
    ) -> None:
        changed = state != self._state or message
        self._state = state
        if reason is not None:
            self._reason = reason
        if changed:
            self._events.emit(StateChanged(state=state, message=message))
