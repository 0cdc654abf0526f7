"""Whatever stands in Hugging Face's cache, only models within it are found and nothing is raised.

``make damaged`` tries 2,000 caches, the tests a sample.
"""

import os
import random
import shutil
from pathlib import Path

import pytest
from damaged_bytes import damaged

from speclsp.models import cache
from speclsp.models.references import Reference

STEP = int(os.environ.get("SPECLSP_DAMAGED_STEP", "40"))
N_CASES = 2000 // STEP
COMMIT = "a" * 40
ODD_NAMES = ["m.gguf", "\x1b[2Jm.gguf", "m\n.gguf", "\u202em.gguf", "x" * 240 + ".gguf", ".gguf"]
ODD_COMMITS = [
    "../../../outside",
    "/etc",
    COMMIT[:-1],
    COMMIT.upper(),
    "",
    f"{COMMIT}/..",
    "\x1b[2J",
]
ODD_TARGETS = ["../../../../outside/m.gguf", "m.gguf", "/dev/zero", "../../blobs/none", "."]


def fill(folder: Path, dice: random.Random) -> None:
    """Make a cache as programs and users leave it: links, copies, loops, other names."""
    for number in range(dice.choice([1, 3])):
        repository = folder / f"models--a--b{number or ''}"
        blobs, snapshot = repository / "blobs", repository / "snapshots" / COMMIT
        refs = repository / "refs"
        for path in (blobs, snapshot, refs):
            path.mkdir(parents=True)
        (blobs / ("b" * 64)).write_bytes(b"GGUF" * 10)
        commit = COMMIT if dice.random() < 0.6 else dice.choice(ODD_COMMITS)
        data = commit.encode()
        (refs / "main").write_bytes(damaged(data, dice) if data and dice.random() < 0.3 else data)
        for name in dice.sample(ODD_NAMES, dice.choice([0, 1, 3])):
            target = f"../../blobs/{'b' * 64}" if dice.random() < 0.5 else dice.choice(ODD_TARGETS)
            (snapshot / name).symlink_to(target)
        if dice.random() < 0.1:
            shutil.rmtree(snapshot)
            snapshot.write_text("a file")


@pytest.mark.timeout(3600)
def test_a_cache_of_any_content_is_read(tmp_path, monkeypatch):
    folder, outside = tmp_path / "hub", tmp_path / "outside"
    outside.mkdir()
    (outside / "m.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr(cache.hub_constants(), "HF_HUB_CACHE", str(folder))
    n_found = 0
    for case in range(N_CASES):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        fill(folder, random.Random(case))
        models = cache.cached_models()
        found = cache.cached_paths(Reference("a/b"))
        n_found += found is not None
        for path in (*(path for _, path in models), *(found or ())):
            assert path.is_relative_to(folder), case
            assert ".." not in path.parts, case
            assert str(path).isprintable(), case
            assert path.is_file(), case
        cache.remove([path for _, path in models])
        assert not cache.cached_models(), case
        assert (outside / "m.gguf").exists(), case
    assert 0 < n_found < N_CASES
