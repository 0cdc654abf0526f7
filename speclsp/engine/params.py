"""Resolves the settings into the parameters of the models and their contexts.

The draft model follows the target's parameters but for its own devices, layers and threads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from speclsp.engine.cpus import physical_cpu_count, thread_count
from speclsp.errors import SettingsError
from speclsp.settings import FlashAttn, GpuLayers, KvCacheType, LoadMode, Settings, SplitMode

N_BRANCHES = 8
"""Most leaves of a token tree.  On a CPU, a context with 8 or 16 sequences in one buffer computes
the same bits as one with a single sequence, in the same time and memory; but each branch of a tree
costs two walks over the KV cache's cells per pass, 5 to 19 µs for 8,000 to 32,000 of them."""

FLOAT_CACHE_TYPES: frozenset[KvCacheType] = frozenset({"f32", "f16", "bf16"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelParams:
    """Where a model's weights are placed, and how they are read."""

    devices: tuple[str, ...] | None = None
    """Names of the devices to offload to; None for all, empty for none."""
    n_gpu_layers: GpuLayers = "auto"
    split_mode: SplitMode = "layer"
    tensor_split: tuple[float, ...] = ()
    main_gpu: int = 0
    tensor_placements: tuple[tuple[str, str], ...] = ()
    """(regular expression over tensor names, buffer type) in order of precedence."""
    load_mode: LoadMode = "auto"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextParams:
    """The parameters of a context."""

    n_ctx: int
    """Positions wanted; 0 for the model's trained context."""
    n_ctx_min: int
    """Least positions that fitting may leave."""
    n_batch: int
    n_ubatch: int
    n_threads: int
    n_threads_batch: int
    flash_attn: FlashAttn
    type_k: KvCacheType
    type_v: KvCacheType
    kv_offload: bool
    n_branches: int = 1
    """Most leaves of a token tree."""


def target_params(
    settings: Settings, *, model_bytes: int | None = None
) -> tuple[ModelParams, ContextParams]:
    """Return the target model's parameters.

    ``model_bytes`` is the size of its file, which limits the threads where the settings set no
    number; None takes all cores.
    Raises :class:`~speclsp.errors.SettingsError` for settings that contradict each other or
    cannot be read.
    """
    n_threads = _threads(settings, model_bytes)
    model_params = ModelParams(
        devices=_devices(settings.device),
        n_gpu_layers=settings.n_gpu_layers,
        split_mode=settings.split_mode,
        tensor_split=_tensor_split(settings.tensor_split),
        main_gpu=settings.main_gpu,
        tensor_placements=_placements(settings),
        load_mode=settings.load_mode,
    )
    context_params = ContextParams(
        n_ctx=settings.ctx_size,
        n_ctx_min=settings.fit_ctx,
        n_batch=settings.batch_size,
        n_ubatch=min(settings.ubatch_size, settings.batch_size),
        n_threads=n_threads,
        n_threads_batch=settings.threads_batch if settings.threads_batch > 0 else n_threads,
        flash_attn=settings.flash_attn,
        type_k=settings.cache_type_k,
        type_v=settings.cache_type_v,
        kv_offload=settings.kv_offload,
        n_branches=N_BRANCHES if settings.speculation else 1,
    )
    if settings.flash_attn == "off" and settings.cache_type_v not in FLOAT_CACHE_TYPES:
        raise SettingsError(
            f"cache_type_v {settings.cache_type_v} needs flash attention, but flash_attn is off.",
            remedy="Set flash_attn to auto, or cache_type_v to f16.",
        )
    return model_params, context_params


def draft_params(
    settings: Settings, n_ctx_target: int, *, model_bytes: int | None = None
) -> tuple[ModelParams, ContextParams]:
    """Return the draft model's parameters; ``n_ctx_target`` is what the target got in the end.

    Raises :class:`~speclsp.errors.SettingsError` as :func:`target_params` does.
    """
    model_params, context_params = target_params(settings, model_bytes=model_bytes)
    n_threads = settings.spec_draft_threads
    if n_threads > 0:
        context_params = replace(context_params, n_threads=n_threads, n_threads_batch=n_threads)
    return (
        replace(
            model_params,
            devices=_devices(settings.spec_draft_device or settings.device),
            n_gpu_layers=settings.spec_draft_ngl,
            tensor_placements=(),
        ),
        replace(context_params, n_ctx=n_ctx_target, type_k="f16", type_v="f16", n_branches=1),
    )


def _threads(settings: Settings, model_bytes: int | None) -> int:
    if settings.threads > 0:
        return settings.threads
    n_cores = physical_cpu_count()
    return n_cores if model_bytes is None else thread_count(model_bytes, n_cores)


def _devices(text: str) -> tuple[str, ...] | None:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        return None
    return () if names == ("none",) else names


def _tensor_split(text: str) -> tuple[float, ...]:
    """Read shares as llama.cpp does: separated by commas or slashes."""
    if not text.strip():
        return ()
    try:
        shares = tuple(float(share) for share in re.split(r"[,/]", text))
    except ValueError:
        shares = (-1.0,)
    if any(not 0.0 <= share < float("inf") for share in shares) or not any(shares):
        raise SettingsError(
            f"tensor_split has the wrong value {text!r}.",
            remedy="Write a share for each GPU, for example `3,1`.",
        )
    return shares


def _placements(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Read ``override_tensor`` (``PATTERN=TYPE,…``) and add patterns for experts on the CPU.

    The added patterns are those of llama.cpp's ``common/common.h``.
    """
    placements = []
    for item in filter(None, settings.override_tensor.split(",")):
        pattern, equals, buffer_type = item.rpartition("=")
        if not equals or not pattern or not buffer_type:
            raise SettingsError(
                f"override_tensor has the wrong value {item!r}.",
                remedy=r"Write PATTERN=TYPE, for example `blk\.1.*=CPU`.",
            )
        try:
            re.compile(pattern)
        except re.error as error:
            raise SettingsError(
                f"override_tensor has the pattern {pattern!r}, which is no regular expression: "
                f"{error}.",
                remedy=r"Write PATTERN=TYPE, for example `blk\.1.*=CPU`.",
            ) from error
        placements.append((pattern, buffer_type))
    experts = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
    if settings.cpu_moe:
        placements.append((experts, "CPU"))
    placements.extend((rf"blk\.{layer}{experts}", "CPU") for layer in range(settings.n_cpu_moe))
    return tuple(placements)
