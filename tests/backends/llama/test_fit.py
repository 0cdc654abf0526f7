"""How many layers and how large a KV cache are tried, on which GPUs."""

from pathlib import Path
from typing import Any

import pytest
from layer_kinds import write_layer_kind

from speclsp.backends.llama import model
from speclsp.backends.llama.fit import (
    Attempt,
    ModelShape,
    estimate_shape,
    first_attempt,
    next_attempt,
)
from speclsp.backends.llama.library import DeviceInfo
from speclsp.backends.llama.model_file import read_gguf_header
from speclsp.errors import ModelLoadError
from speclsp.settings import Settings

GIB = 1024**3


def gpu(name: str = "CUDA0", free: int = 8 * GIB) -> DeviceInfo:
    return DeviceInfo(name, "a GPU", "gpu", free, 8 * GIB, handle=0)


@pytest.fixture
def path(model_folder):
    return model_folder / "embedded-target-f16.gguf"


def plan(
    path: Path, gpus: list[DeviceInfo], n_bytes_reserved: int = 0, **changes: Any
) -> tuple[int, int]:
    settings = Settings(**changes)
    attempt = first_attempt(
        read_gguf_header(path), settings, gpus, n_bytes_reserved=n_bytes_reserved
    )
    return attempt.n_gpu_layers, attempt.n_ctx


@pytest.mark.parametrize(
    ("gpus", "changes", "n_gpu_layers", "n_ctx"),
    [
        ([], {}, 0, 2048),
        ([], {"n_gpu_layers": "all"}, 0, 2048),
        ([gpu()], {}, 7, 2048),
        ([gpu()], {"ctx_size": 0}, 7, 2048),
        ([gpu()], {"ctx_size": 1000}, 7, 1000),
        ([gpu(free=0)], {}, 0, 2048),
        ([gpu(free=0), gpu("CUDA1")], {}, 7, 2048),
        ([gpu(free=0)], {"fit": False}, 7, 2048),
        ([gpu(free=0)], {"n_gpu_layers": "all"}, 7, 2048),
        ([gpu(free=0)], {"n_gpu_layers": 4}, 4, 2048),
        ([gpu()], {"n_gpu_layers": 99}, 7, 2048),
        ([gpu()], {"n_gpu_layers": 0}, 0, 2048),
        ([gpu()], {"n_gpu_layers": -1}, 7, 2048),
    ],
)
def test_the_first_attempt(path, gpus, changes, n_gpu_layers, n_ctx):
    assert plan(path, gpus, **changes) == (n_gpu_layers, n_ctx)


def test_auto_leaves_what_is_reserved(path):
    header = read_gguf_header(path)
    shape = estimate_shape(header, Settings(ctx_size=2048))
    whole = shape.offloaded_bytes(7, 2048)
    kept_free = 512 * 1024**2
    room = [gpu(free=kept_free + whole)]
    assert plan(path, room) == (7, 2048)
    assert plan(path, room, n_bytes_reserved=shape.layer_bytes[0]) == (6, 2048)
    assert plan(path, room, n_bytes_reserved=whole) == (0, 2048)
    # Whoever names a number gets it.
    assert plan(path, room, n_bytes_reserved=whole, n_gpu_layers=7) == (7, 2048)


@pytest.fixture
def two_gpus(monkeypatch):
    found = (gpu("CUDA0"), gpu("CUDA1"), DeviceInfo("CPU", "", "cpu", 0, 0, handle=0))
    monkeypatch.setattr(model, "devices", lambda: found)


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (Settings(), ["CUDA0", "CUDA1"]),
        (Settings(device="CUDA1"), ["CUDA1"]),
        (Settings(device="none"), []),
        # as llama-server's documents write it
        (Settings(device="cuda:1"), ["CUDA1"]),
        # main_gpu counts for one GPU alone
        (Settings(main_gpu=1), ["CUDA0", "CUDA1"]),
        (Settings(split_mode="none"), ["CUDA0"]),
        (Settings(split_mode="none", main_gpu=1), ["CUDA1"]),
        (Settings(split_mode="none", main_gpu=-1), []),
        (Settings(split_mode="none", device="CUDA1"), ["CUDA1"]),
        (Settings(split_mode="none", device="none", main_gpu=3), []),
    ],
)
def test_the_devices_that_count(settings, names):
    assert [device.name for device in model.offload_devices(settings)] == names


@pytest.mark.usefixtures("two_gpus")
def test_a_gpu_that_is_not_there():
    with pytest.raises(ModelLoadError, match="no GPU number 2") as caught:
        model.offload_devices(Settings(split_mode="none", main_gpu=2))
    assert "There are CUDA0, CUDA1" in caught.value.remedy


def test_snapshots_of_states_are_planned_for(tmp_path):
    path = write_layer_kind(tmp_path / "lfm2.gguf", "lfm2")
    header = read_gguf_header(path)
    weights = sum(n for name, n in header.tensor_bytes.items() if name.startswith("blk."))
    planned = sum(estimate_shape(header, Settings()).layer_bytes)
    assert weights * 9 // 8 - 2 <= planned <= weights * 9 // 8


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
def test_bytes_on_the_devices(n_gpu_layers, n_ctx, n_bytes):
    assert SHAPE.offloaded_bytes(n_gpu_layers, n_ctx) == n_bytes


@pytest.mark.parametrize(
    ("free_bytes", "n_gpu_layers"),
    [(10**9, 5), (520, 5), (519, 4), (410, 4), (190, 2), (189, 1), (80, 1), (79, 0), (0, 0)],
)
def test_as_many_layers_as_fit(free_bytes, n_gpu_layers):
    assert SHAPE.most_layers(free_bytes, 10) == n_gpu_layers


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
        (Attempt(33, 4096), 33, 4096, [(n, 4096) for n in (33, 29, 25, 21, 17, 13, 9, 5, 1, 0)]),
        # it ends at the least exactly
        (Attempt(0, 3000), 1, 1000, [(0, 3000), (0, 1500), (0, 1000)]),
        # a cache that is below the least already is not made larger
        (Attempt(1, 512), 2, 2048, [(1, 512), (0, 512)]),
    ],
)
def test_the_ladder(first, n_layers, n_ctx_min, steps):
    assert ladder(first, n_layers, n_ctx_min) == steps
