"""Whatever stands in .gitignore and git's info/exclude, matching is bounded and nothing is raised.

``make damaged`` tries 2,000 contents, the tests a sample.
"""

import os
import random

import pytest
from damaged_bytes import damaged
from indexed_project import git, write

from speclsp.project import ignore
from speclsp.project.ignore import IgnoredFiles

STEP = int(os.environ.get("SPECLSP_DAMAGED_STEP", "40"))
N_CASES = 2000 // STEP
PIECES = [
    "*.log\n", "!keep.log\n", "/build/\n", "**/a/**/b\n", "a/**\n", "# a comment\n", "[a-z]?.py\n",
    "\\#x\n", "trailing \\ \n", "\x1b[2J\n", "\u202egpj.py\n", "[\n", "!\n", "\\\n",
    "*" * 300 + "\n",
    "a/" * 500 + "\n", "\ufeff*.py\r\n", "x" * 5000 + "\n", "[!" * 50 + "]\n", "\0\n",
]  # fmt: skip
MOST_PATTERNS = 2_000


def content(dice: random.Random) -> bytes:
    """Return patterns of all kinds, now and then more than anybody writes, often damaged."""
    pieces = dice.choices(PIECES, k=dice.choice([1, 5, 20]))
    text = "".join(pieces) * dice.choice([1, 1, 30, 3_000])
    data = text[: 2 << 20].encode()
    return damaged(data, dice) if dice.random() < 0.7 else data


@pytest.mark.timeout(3600)
def test_patterns_of_any_content_are_bounded(tmp_path, monkeypatch):
    compiled: list[object] = []
    made = ignore._LinearPattern.pattern_to_regex

    def counting(pattern):
        compiled.append(pattern)
        return made(pattern)

    monkeypatch.setattr(ignore._LinearPattern, "pattern_to_regex", staticmethod(counting))
    git(tmp_path, "init")
    write(tmp_path / "sub" / "deep" / "a.py", "x = 1\n")
    places = [".gitignore", "sub/.gitignore", "sub/deep/.gitignore", ".git/info/exclude"]
    n_told = 0
    for case in range(N_CASES):
        dice = random.Random(case)
        for place in places:
            write(tmp_path / place, content(dice))
        compiled.clear()
        told: list[str] = []
        ignored = IgnoredFiles([], told.append)
        verdicts = [
            ignored.is_ignored(str(tmp_path), str(tmp_path / "sub" / "deep" / "a.py"))
            for _ in range(2)
        ]
        assert verdicts[0] == verdicts[1]
        assert len(compiled) <= MOST_PATTERNS, case
        assert len(told) == len(set(told))
        if told:
            assert verdicts == [True, True], case
        n_told += bool(told)
    assert 0 < n_told < N_CASES
