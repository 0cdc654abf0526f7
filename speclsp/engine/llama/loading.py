"""Loads a model and its context, with less of the GPU where it does not fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from speclsp.engine.llama.context import LlamaTarget
from speclsp.engine.llama.fit import Attempt, next_attempt
from speclsp.engine.llama.gguf_header import read_gguf_header
from speclsp.engine.llama.load_report import load_report
from speclsp.engine.llama.model import LlamaModel, LoadProgress, open_model
from speclsp.engine.llama.model_file import check_model_file
from speclsp.engine.llama.placement import offload_devices
from speclsp.engine.llama.planning import n_layers_of, plan
from speclsp.engine.params import ContextParams, ModelParams
from speclsp.errors import DecodeError, ModelLoadError
from speclsp.request import LogLevel

Log = Callable[[LogLevel, str], None]

_MEMORY_SIGNS = ("alloc", "out of memory")
"""What llama.cpp's reasons for a failure contain where memory was short."""
_LEAST_CTX = 2
"""Positions without which no token can follow another."""


def load_target(
    path: Path,
    model_params: ModelParams,
    context_params: ContextParams,
    *,
    fit: bool,
    progress: LoadProgress,
    log: Log,
    n_bytes_reserved: int = 0,
) -> LlamaTarget:
    """Load the model at ``path``, make its context, and warm it up.

    With ``fit``, where memory is short: fewer layers on the GPU, then a smaller KV cache;
    ``n_bytes_reserved`` of the GPUs are left to what is loaded later.
    ``progress`` takes the share that is loaded and says whether to go on.
    Raises :class:`~speclsp.errors.ModelNotFoundError`, :class:`~speclsp.errors.ModelLoadError`,
    or :class:`~speclsp.errors.EngineUnavailableError` where ``progress`` said no.
    """
    check_model_file(path)
    gpus = offload_devices(model_params)
    header = read_gguf_header(path)
    loader = _Loader(path, model_params, context_params, progress)
    attempt = plan(
        header, model_params, context_params, gpus, fit=fit, n_bytes_reserved=n_bytes_reserved
    )
    n_layers = n_layers_of(header)
    n_ctx_asked = attempt.n_ctx
    if n_ctx_asked < _LEAST_CTX:
        raise ModelLoadError(
            f"The model {path} cannot complete in a context of {n_ctx_asked} position.",
            remedy="Raise ctx_size, or spec_draft_ctx_size for a draft model; 0 is for the most.",
        )
    while True:
        loaded = loader.load(attempt)
        if isinstance(loaded, LlamaTarget):
            break
        following = next_attempt(attempt, n_layers, context_params.n_ctx_min) if fit else None
        if following is None:
            loader.close()
            raise ModelLoadError(
                f"The model {path} does not fit the memory: {loaded.message}",
                remedy="Take a smaller model or quantisation, or lower ctx_size.",
            ) from loaded
        log("warning", _step_down(path, attempt, following, loaded))
        attempt = following
    for level, line in load_report(loaded, path.name, model_params, gpus, n_ctx_asked):
        log(level, line)
    return loaded


@dataclass(slots=True)
class _Loader:
    """Makes a target for one attempt after the other; weights stay where only n_ctx changes."""

    path: Path
    model_params: ModelParams
    context_params: ContextParams
    progress: LoadProgress
    _model: LlamaModel | None = None
    _n_gpu_layers: int = -1

    def load(self, attempt: Attempt) -> LlamaTarget | ModelLoadError:
        """Try; where memory was short, return the error.  Raises for any other failure.

        The target owns the weights; while there is none, this object does.
        """
        try:
            return self._try(attempt)
        except ModelLoadError as error:
            if any(sign in error.message.lower() for sign in _MEMORY_SIGNS):
                return error
            self.close()
            raise

    def close(self) -> None:
        """Free the weights."""
        if self._model is not None:
            self._model.close()
            self._model = None

    def _try(self, attempt: Attempt) -> LlamaTarget:
        if self._model is None or self._n_gpu_layers != attempt.n_gpu_layers:
            self.close()
            self._model = open_model(
                self.path, self.model_params, attempt.n_gpu_layers, self.progress
            )
            self._n_gpu_layers = attempt.n_gpu_layers
        if not self._model.is_generative:
            raise ModelLoadError(
                f"{self.path} is no text generation model ({self._model.description}).",
                remedy="Take a decoder-only code model with fill-in-the-middle tokens.",
            )
        target = LlamaTarget(self._model, replace(self.context_params, n_ctx=attempt.n_ctx))
        try:
            target.warm_up()
        except DecodeError as error:
            self._model = None  # closed with the target
            target.close()
            raise ModelLoadError(f"The model {self.path} cannot decode: {error.message}") from error
        return target


def _step_down(path: Path, failed: Attempt, following: Attempt, failure: ModelLoadError) -> str:
    if following.n_ctx != failed.n_ctx:
        step = f"a KV cache of {following.n_ctx} instead of {failed.n_ctx} positions"
    else:
        step = f"{following.n_gpu_layers} instead of {failed.n_gpu_layers} layers on the GPU"
    return f"{path.name} does not fit: trying {step} ({failure.message})"
