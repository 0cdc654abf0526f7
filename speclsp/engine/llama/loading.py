"""Loads a model and its context, with less of the GPU where it does not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from speclsp.engine.llama.context import LlamaTarget
from speclsp.engine.llama.fit import Attempt, first_attempt, next_attempt
from speclsp.engine.llama.gguf_header import GgufHeader, read_gguf_header
from speclsp.engine.llama.library import DeviceInfo, library_version
from speclsp.engine.llama.model import LlamaModel, LoadProgress, open_model
from speclsp.engine.llama.model_file import check_model_file
from speclsp.engine.llama.placement import offload_devices
from speclsp.engine.llama.shape import estimate_shape
from speclsp.engine.params import ContextParams, ModelParams
from speclsp.errors import DecodeError, ModelLoadError
from speclsp.request import LogLevel

Log = Callable[[LogLevel, str], None]

_MEMORY_KEPT_FREE = 512 * 1024 * 1024
"""Bytes of each GPU that the estimates leave to the backend itself and to others."""
_MEMORY_SIGNS = ("alloc", "out of memory")
"""What llama.cpp's reasons for a failure contain where memory was short."""
_LEAST_CTX = 2
"""Positions without which no token can follow another."""
_MIB = 1024 * 1024


def load_target(
    path: Path,
    model_params: ModelParams,
    context_params: ContextParams,
    *,
    fit: bool,
    progress: LoadProgress,
    log: Log,
) -> LlamaTarget:
    """Load the model at ``path``, make its context, and warm it up.

    With ``fit``, where memory is short: fewer layers on the GPU, then a smaller KV cache.
    ``progress`` takes the share that is loaded and says whether to go on.
    Raises :class:`~speclsp.errors.ModelNotFoundError`, :class:`~speclsp.errors.ModelLoadError`,
    or :class:`~speclsp.errors.EngineUnavailableError` where ``progress`` said no.
    """
    check_model_file(path)
    gpus = offload_devices(model_params.devices)
    header = read_gguf_header(path)
    loader = _Loader(path, model_params, context_params, progress)
    attempt = plan(header, model_params, context_params, gpus, fit=fit)
    n_layers = header.number("block_count", 0) + 1
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
    try:
        loaded.warm_up()
    except DecodeError as error:
        loaded.close()
        raise ModelLoadError(f"The model {path} cannot decode: {error.message}") from error
    for line in describe(loaded, path, gpus, n_ctx_asked):
        log("info", line)
    return loaded


def plan(
    header: GgufHeader,
    model_params: ModelParams,
    context_params: ContextParams,
    gpus: Sequence[DeviceInfo],
    *,
    fit: bool,
) -> Attempt:
    """Return what to try first.

    A number of layers that the user set is tried as it is; ``auto`` takes the most that the
    estimates find room for, or all of them without ``fit``.
    """
    n_ctx_train = header.number("context_length", context_params.n_ctx)
    n_ctx = min(context_params.n_ctx or n_ctx_train, n_ctx_train)
    n_layers = header.number("block_count", 0) + 1
    if not gpus:
        return Attempt(0, n_ctx)
    if isinstance(model_params.n_gpu_layers, int):
        # llama.cpp takes a negative number for all.
        wanted = model_params.n_gpu_layers
        return Attempt(n_layers if wanted < 0 else min(wanted, n_layers), n_ctx)
    if model_params.n_gpu_layers == "all" or not fit:
        return Attempt(n_layers, n_ctx)
    free = sum(max(0, gpu.memory_free - _MEMORY_KEPT_FREE) for gpu in gpus)
    shape = estimate_shape(header, model_params, replace(context_params, n_ctx=n_ctx))
    return first_attempt(shape, free, n_ctx)


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
        return LlamaTarget(self._model, replace(self.context_params, n_ctx=attempt.n_ctx))


def _step_down(path: Path, failed: Attempt, following: Attempt, failure: ModelLoadError) -> str:
    if following.n_ctx != failed.n_ctx:
        step = f"a KV cache of {following.n_ctx} instead of {failed.n_ctx} positions"
    else:
        step = f"{following.n_gpu_layers} instead of {failed.n_gpu_layers} layers on the GPU"
    return f"{path.name} does not fit: trying {step} ({failure.message})"


def describe(
    target: LlamaTarget, path: Path, gpus: Sequence[DeviceInfo], n_ctx_asked: int
) -> list[str]:
    """Return the log's lines on what was loaded where."""
    layers = ", ".join(f"{count} on {name}" for name, count in target.layers.items())
    lines = [
        (
            f"loaded {path.name}: {target.description}, {target.size / _MIB:.1f} MiB; "
            f"layers: {layers}; context {target.n_ctx} (trained on {target.n_ctx_train}), "
            f"batch {target.n_batch}, micro-batch {target.n_ubatch}; llama.cpp {library_version()}"
        )
    ]
    lines.extend(
        f"device {gpu.name}: {gpu.description}, {gpu.memory_free / _MIB:.0f} of "
        f"{gpu.memory_total / _MIB:.0f} MiB free before"
        for gpu in gpus
    )
    if not gpus:
        lines.append("no GPU to offload to: computing on the CPU")
    if target.n_ctx < n_ctx_asked:
        lines.append(f"the KV cache was cut from {n_ctx_asked} to {target.n_ctx} positions to fit")
    if not target.supports_rollback:
        lines.append(f"{path.name} cannot take tokens back: speculation is off for it")
    return lines
