from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from indexed_project import IndexUnderTest

from speclsp.project import project_index


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    return root


@pytest.fixture
def make_index(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., IndexUnderTest]]:
    # Each question scans again.
    monkeypatch.setattr(project_index, "_LEAST_REST_S", 0.05)
    monkeypatch.setattr(project_index, "_REST", 0)
    made: list[IndexUnderTest] = []

    def make(root: Path = project, **arguments: Any) -> IndexUnderTest:
        made.append(IndexUnderTest(root, **arguments))
        return made[-1]

    yield make
    for under_test in made:
        under_test.tokenize.gate.set()
        under_test.index.close()
        under_test.index._thread.join(60)
        assert not under_test.index._thread.is_alive()
