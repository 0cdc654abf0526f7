"""Whether a file that is open in a buffer is one that the user's patterns leave out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from speclsp.workspace.ignore import IgnoreRules


class IgnoredFiles:
    """Keeps the rules of folders until they are renewed.  It is not synchronised."""

    def __init__(self, exclude: Iterable[str]) -> None:
        self._exclude = tuple(exclude)
        self._rules: dict[str, IgnoreRules] = {}

    def renew(self, exclude: Iterable[str]) -> None:
        """Read all patterns again when they are needed."""
        self._exclude = tuple(exclude)
        self._rules.clear()

    def is_ignored(self, root: str, file: str) -> bool:
        """Whether ``file``, in the folder ``root``, is left out; both paths are absolute."""
        if root not in self._rules:
            self._rules[root] = IgnoreRules(Path(root), self._exclude)
        relative = os.path.relpath(file, root).replace(os.sep, "/")
        return not relative.startswith("../") and self._rules[root].ignored_by_patterns(relative)
