"""Why a side did not run, without what is nobody's business."""

from __future__ import annotations

import pytest

from benchmarks.peers.contract import reason, without_folders
from speclsp.errors import EngineError


def test_an_error_is_told_with_its_remedy() -> None:
    error = EngineError("it ended: out of memory", remedy="Take less.")
    assert reason(error) == "it ended: out of memory Take less."
    assert reason(EngineError("it fell over.")) == "it fell over."


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("there is no /home/me/models/some-draft.gguf.", "there is no some-draft.gguf."),
        ("cannot open '/home/me/a.gguf' or /tmp/b", "cannot open 'a.gguf' or b"),
        ("asked http://127.0.0.1:80/infill, and/or tools/peers/build.sh", None),
        ("3 / 4", None),
    ],
)
def test_files_are_named_without_their_folders(text: str, told: str | None) -> None:
    assert without_folders(text) == (told or text)
