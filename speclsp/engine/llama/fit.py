"""What to try where a model does not fit the GPU: fewer layers, then a smaller KV cache.

Pure planning over estimates; :mod:`speclsp.engine.llama.loading` tries what is planned here and
comes back with what failed.
"""

from __future__ import annotations

from dataclasses import dataclass

_LAYER_STEPS = 8
"""Into how many steps the way from all layers to none is cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """Bytes that a model wants on the devices that it is offloaded to.

    ``layer_bytes`` are the weights of each repeating layer, first to last, ``output_bytes`` those
    of the output layer.  Weights that are placed on the CPU by name are not among them.
    """

    layer_bytes: tuple[int, ...]
    output_bytes: int
    kv_bytes_per_position: tuple[int, ...]
    """Of each repeating layer; zeros where the KV cache stays on the CPU."""
    compute_bytes: int
    """For intermediate results, whatever the number of layers."""

    @property
    def n_layers(self) -> int:
        """Layers that can be offloaded: the repeating ones and the output."""
        return len(self.layer_bytes) + 1

    def offloaded_bytes(self, n_gpu_layers: int, n_ctx: int) -> int:
        """Bytes on the devices with the last ``n_gpu_layers`` layers there, the output first."""
        if n_gpu_layers <= 0:
            return 0
        first = max(0, self.n_layers - n_gpu_layers)
        weights = sum(self.layer_bytes[first:]) + self.output_bytes
        cache = sum(self.kv_bytes_per_position[first:]) * n_ctx
        return weights + cache + self.compute_bytes


@dataclass(frozen=True, slots=True)
class Attempt:
    """What to try: layers on GPUs (the output layer counts) and positions of the KV cache."""

    n_gpu_layers: int
    n_ctx: int


def first_attempt(shape: ModelShape, free_bytes: int, n_ctx: int) -> Attempt:
    """Return the most layers that the estimates find room for in ``free_bytes``."""
    for n_gpu_layers in range(shape.n_layers, 0, -1):
        if shape.offloaded_bytes(n_gpu_layers, n_ctx) <= free_bytes:
            return Attempt(n_gpu_layers, n_ctx)
    return Attempt(0, n_ctx)


def next_attempt(failed: Attempt, n_layers: int, n_ctx_min: int) -> Attempt | None:
    """Return what to try after ``failed`` did not fit; None when there is nothing left.

    Fewer layers first, an eighth of ``n_layers`` at a time, down to none.  Then the KV cache is
    halved as often as it is above ``n_ctx_min``, where it ends.
    """
    if failed.n_gpu_layers > 0:
        step = max(1, n_layers // _LAYER_STEPS)
        return Attempt(max(0, failed.n_gpu_layers - step), failed.n_ctx)
    if failed.n_ctx <= n_ctx_min:
        return None
    return Attempt(0, max(failed.n_ctx // 2, n_ctx_min))
