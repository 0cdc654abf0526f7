"""Reads the settings on how to load a model.

llama.cpp's threads wait for each other after every operation, so one thread too many slows down
all of them: hyper-threads and cores beyond a container's quota are not counted.  A small model,
which one core computes faster than threads can synchronise, gets one thread: the embedded model
decodes a token in 0.3 ms with one and 0.9 ms with two.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Final

from speclsp.cores import physical_cpu_count
from speclsp.errors import SettingsError
from speclsp.settings import KvCacheType, Settings

N_BRANCHES = 8
"""Most leaves of a token tree.  On a CPU, a context with 8 or 16 sequences in one buffer computes
the same bits as one with a single sequence, in the same time and memory; but each branch of a tree
costs two walks over the KV cache's cells per pass, 5 to 19 µs for 8,000 to 32,000 of them."""

BYTES_PER_THREAD = 32 * 1024 * 1024
"""Least weights per thread: 2 to 3 ms of memory traffic per token; below it, waiting costs more."""

ENVIRONMENT: Final = {"GOMP_SPINCOUNT": "1000", "GGML_NO_BACKTRACE": "1"}
"""What :mod:`speclsp.backends.llama` sets of llama.cpp's variables where the user does not."""

_FLOAT_CACHE_TYPES: frozenset[KvCacheType] = frozenset({"f32", "f16", "bf16"})


def draft_settings(settings: Settings, n_ctx_target: int) -> Settings:
    """Return the settings to load the draft model with; ``n_ctx_target`` is the target's context.

    What has no setting ``spec_draft_*`` follows the target.
    """
    n_own, n_own_batch = settings.spec_draft_threads, settings.spec_draft_threads_batch
    of_target = n_own <= 0
    n_batch = settings.threads_batch if of_target else n_own
    return replace(
        settings,
        device=settings.spec_draft_device or settings.device,
        n_gpu_layers=settings.spec_draft_ngl,
        threads=settings.threads if of_target else n_own,
        threads_batch=n_own_batch if n_own_batch > 0 else n_batch,
        override_tensor="",
        cpu_moe=settings.spec_draft_cpu_moe,
        n_cpu_moe=settings.spec_draft_n_cpu_moe,
        n_cpu_ffn=0,
        ctx_size=settings.spec_draft_ctx_size or n_ctx_target,
        cache_type_k=settings.spec_draft_type_k,
        cache_type_v=settings.spec_draft_type_v,
        speculation=False,
    )


def check_params(settings: Settings) -> None:
    """Raise :class:`~speclsp.errors.SettingsError` for malformed or contradictory settings."""
    tensor_split(settings)
    tensor_placements(settings)
    check_value_cache(settings, "cache_type_v")


def check_value_cache(settings: Settings, name: str) -> None:
    """Raise :class:`~speclsp.errors.SettingsError` if flash attention is off, which it needs.

    ``name`` is the setting of the data type, the target's or the draft model's.
    """
    data_type = getattr(settings, name)
    if settings.flash_attn == "off" and data_type not in _FLOAT_CACHE_TYPES:
        raise SettingsError(
            f"{name} {data_type} needs flash attention, but flash_attn is off.",
            remedy=f"Set flash_attn to auto, or {name} to f16.",
        )


def n_threads(settings: Settings, n_model_bytes: int) -> tuple[int, int]:
    """Return the threads for decoding and for batches of a model with ``n_model_bytes`` weights."""
    n_decoding = settings.threads
    if n_decoding <= 0:
        n_decoding = thread_count(n_model_bytes, physical_cpu_count())
    return n_decoding, settings.threads_batch if settings.threads_batch > 0 else n_decoding


def thread_count(model_bytes: int, n_cores: int) -> int:
    """Return how many of ``n_cores`` threads make a model of this size faster, at least 1."""
    return max(1, min(n_cores, math.ceil(model_bytes / BYTES_PER_THREAD)))


def device_names(settings: Settings) -> tuple[str, ...] | None:
    """Return the names of the devices to offload to; None for all, () for none."""
    names = tuple(name.strip() for name in settings.device.split(",") if name.strip())
    if not names:
        return None
    return () if names == ("none",) else names


def tensor_split(settings: Settings) -> tuple[float, ...]:
    """Parse shares separated by commas or slashes, as llama.cpp does.

    Raises :class:`~speclsp.errors.SettingsError`.
    """
    text = settings.tensor_split
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


def tensor_placements(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Return regular expressions over tensors' names, each with a buffer type; the first counts.

    They are those of ``override_tensor`` (``PATTERN=TYPE,…``), and those of llama.cpp's
    ``common/common.h`` for experts and feed-forward weights on the CPU.
    Raises :class:`~speclsp.errors.SettingsError`.
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
                f"override_tensor has the pattern {pattern!r}, which is not a regular expression: "
                f"{error}.",
                remedy=r"Write PATTERN=TYPE, for example `blk\.1.*=CPU`.",
            ) from error
        placements.append((pattern, buffer_type))
    experts = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
    if settings.cpu_moe:
        placements.append((experts, "CPU"))
    placements.extend((rf"blk\.{layer}{experts}", "CPU") for layer in range(settings.n_cpu_moe))
    dense = r"\.ffn_(up|down|gate|gate_up)\."
    placements.extend((rf"blk\.{layer}{dense}", "CPU") for layer in range(settings.n_cpu_ffn))
    return tuple(placements)
