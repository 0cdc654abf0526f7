"""Context from other files of a package that helps with a place in one of its files."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from training.corpus import SourceFile
from training.cutting import line_end, line_start

_NAME = re.compile(r"[A-Za-z_]\w{3,}")
_DEFINITION = re.compile(
    r"^[ \t]*(?:export |async |local |static |inline |public )*"
    r"(?:def|class|function|struct|enum|interface|const|let|var|type) +([A-Za-z_]\w{3,})"
    r"|^([A-Za-z_]\w{3,})(?:: [^=\n]+)? = ",
    re.MULTILINE,
)
_MAX_FILES = 12
"""A name that more files of a package use is too common to lead anywhere."""


@dataclass(frozen=True, slots=True)
class Place:
    """A character of one of a package's files."""

    file_idx: int
    start: int


class PackageIndex:
    """Where a package's files define and use names."""

    def __init__(self, files: Sequence[SourceFile]) -> None:
        self.files = files
        self._definitions: dict[str, list[Place]] = {}
        self._uses: dict[str, list[Place]] = {}
        for file_idx, file in enumerate(files):
            for match in _DEFINITION.finditer(file.text):
                name = match.group(1) or match.group(2)
                self._definitions.setdefault(name, []).append(Place(file_idx, match.start()))
            seen: set[str] = set()
            for match in _NAME.finditer(file.text):
                name = match.group()
                if name not in seen:
                    seen.add(name)
                    self._uses.setdefault(name, []).append(Place(file_idx, match.start()))

    def places_for(self, text: str, file_idx: int, rng: random.Random) -> list[Place]:
        """Return places in other files that define, or else use, the names in ``text``.

        The rarest names come first: they say most.  One place a file.
        """
        names = list(dict.fromkeys(_NAME.findall(text)))
        names.sort(key=lambda name: len(self._uses.get(name, ())))
        found: dict[int, Place] = {}
        for name in names:
            if len(self._uses.get(name, ())) > _MAX_FILES and name not in self._definitions:
                continue
            places = self._elsewhere(self._definitions, name, file_idx)
            places = places or self._elsewhere(self._uses, name, file_idx)
            if places:
                place = rng.choice(places)
                found.setdefault(place.file_idx, place)
        return list(found.values())

    def window(self, place: Place, n_chars: int) -> str:
        """Return whole lines around a place, most of them after it: about ``n_chars`` long."""
        text = self.files[place.file_idx].text
        start = line_start(text, max(0, place.start - n_chars // 5))
        return text[start : line_end(text, min(len(text), start + n_chars))]

    @staticmethod
    def _elsewhere(index: dict[str, list[Place]], name: str, file_idx: int) -> list[Place]:
        places = [place for place in index.get(name, ()) if place.file_idx != file_idx]
        return places if len(places) <= _MAX_FILES else []
