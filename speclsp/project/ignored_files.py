"""Whether a file that is open in a buffer is one that the user's patterns leave out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from speclsp.project.ignore import IgnoreRules

_MAX_VERDICTS: Final = 1_024


class IgnoredFiles:
    """Keeps the rules of folders, and what they say, until they are renewed.

    It is not synchronised.
    """

    def __init__(self, exclude: Iterable[str]) -> None:
        self._exclude = tuple(exclude)
        self._rules: dict[str, IgnoreRules] = {}
        self._verdicts: dict[tuple[str, str], bool] = {}
        """Each key press asks about the same file, and matching is what costs most there."""

    def renew(self, exclude: Iterable[str]) -> None:
        """Read all patterns again when they are needed."""
        self._exclude = tuple(exclude)
        self._rules.clear()
        self._verdicts.clear()

    def is_ignored(self, root: str, file: str) -> bool:
        """Whether ``file``, in the folder ``root``, is left out; both paths are absolute."""
        verdict = self._verdicts.get((root, file))
        if verdict is None:
            if len(self._verdicts) >= _MAX_VERDICTS:
                self._verdicts.clear()
            verdict = self._verdicts[root, file] = self._verdict(root, file)
        return verdict

    def _verdict(self, root: str, file: str) -> bool:
        if root not in self._rules:
            self._rules[root] = IgnoreRules(Path(root), self._exclude)
        relative = os.path.relpath(file, root).replace(os.sep, "/")
        return not relative.startswith("../") and self._rules[root].ignored_by_patterns(relative)
