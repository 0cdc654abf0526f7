"""What is tried where a model does not fit."""

from __future__ import annotations

import pytest

from speclsp.engine.llama.fit import Attempt, ModelShape, first_attempt, next_attempt

SHAPE = ModelShape(
    layer_bytes=(100, 100, 100, 100),
    output_bytes=50,
    kv_bytes_per_position=(1, 1, 1, 1),
    compute_bytes=30,
)


@pytest.mark.parametrize(
    ("n_gpu_layers", "n_ctx", "n_bytes"),
    [
        (0, 10, 0),
        (1, 10, 50 + 30),
        (2, 10, 50 + 100 + 10 + 30),
        (5, 10, 50 + 400 + 40 + 30),
        (9, 10, 50 + 400 + 40 + 30),
        (5, 0, 50 + 400 + 30),
    ],
)
def test_bytes_on_the_devices(n_gpu_layers: int, n_ctx: int, n_bytes: int) -> None:
    assert SHAPE.offloaded_bytes(n_gpu_layers, n_ctx) == n_bytes


@pytest.mark.parametrize(
    ("free_bytes", "n_gpu_layers"),
    [(10**9, 5), (520, 5), (519, 4), (410, 4), (190, 2), (189, 1), (80, 1), (79, 0), (0, 0)],
)
def test_as_many_layers_as_fit(free_bytes: int, n_gpu_layers: int) -> None:
    assert first_attempt(SHAPE, free_bytes, 10) == Attempt(n_gpu_layers, 10)


def ladder(first: Attempt, n_layers: int, n_ctx_min: int) -> list[tuple[int, int]]:
    steps = []
    attempt: Attempt | None = first
    while attempt is not None:
        steps.append((attempt.n_gpu_layers, attempt.n_ctx))
        assert len(steps) < 100
        attempt = next_attempt(attempt, n_layers, n_ctx_min)
    return steps


@pytest.mark.parametrize(
    ("first", "n_layers", "n_ctx_min", "steps"),
    [
        # few layers go one by one, then the cache is halved down to the least
        (
            Attempt(3, 8192),
            6,
            2048,
            [(3, 8192), (2, 8192), (1, 8192), (0, 8192), (0, 4096), (0, 2048)],
        ),
        # many layers go an eighth at a time
        (
            Attempt(33, 4096),
            33,
            4096,
            [(n, 4096) for n in (33, 29, 25, 21, 17, 13, 9, 5, 1, 0)],
        ),
        # it ends at the least exactly
        (Attempt(0, 3000), 1, 1000, [(0, 3000), (0, 1500), (0, 1000)]),
        # a cache that is below the least already is not made larger
        (Attempt(1, 512), 2, 2048, [(1, 512), (0, 512)]),
    ],
)
def test_the_ladder(
    first: Attempt, n_layers: int, n_ctx_min: int, steps: list[tuple[int, int]]
) -> None:
    assert ladder(first, n_layers, n_ctx_min) == steps
