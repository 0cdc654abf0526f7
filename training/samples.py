"""The stream of training samples: random places of random files, laid out and packed.

Some have context from other files of the same package that helps with the place.
"""

from __future__ import annotations

import math
import random
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from training.corpus import SourceFile
from training.cutting import Cut, cut_at, line_end, line_start
from training.layouts import (
    Encode,
    FimText,
    Sample,
    SpecialTokens,
    Weights,
    document_sample,
    fim_sample,
)

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


CHARS_PER_TOKEN = 2.8
_MAX_CHARS_PER_TOKEN = 5
"""Over a whole text: so many characters fill a row in any case."""

_MIN_TOKENS = 112
_MAX_LINES_ABOVE = 20
"""Lines that may lie between the anchor and the cursor's line."""

_FROM_START = 0.4
"""Share of the documents that begin where their file begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Shares of the kinds of samples, and what their predictions weigh."""

    documents: float = 0.07
    """Of all samples: texts read from left to right, which fill what is left of their row."""
    repository: float = 0.3
    """Of the fill-in-the-middle samples: with context from other files."""
    anchored: float = 0.55
    """Of the fill-in-the-middle samples: in the anchored layout."""
    above: float = 0.65
    """Of the anchored ones: with the anchor above the cursor's line."""
    joined: float = 0.6
    """Of the anchored ones: typed text and middle as one text, as after token healing."""
    no_suffix: float = 0.08
    short_suffix: float = 0.25
    weights: Weights = field(default_factory=Weights)


class SampleStream:
    """Draws samples; the same seed gives the same samples."""

    n_least = _MIN_TOKENS
    """Tokens of a row's rest that are not worth a sample if there are fewer."""

    def __init__(
        self,
        files: Sequence[SourceFile],
        *,
        special: SpecialTokens,
        encode: Encode,
        mix: Mix,
        seed: int,
    ) -> None:
        self._files = files
        self._special = special
        self._encode = encode
        self._mix = mix
        self._rng = random.Random(seed)
        self._ends = list(accumulate(len(file.text) for file in files))
        self._packages: dict[str, list[int]] = {}
        for idx, file in enumerate(files):
            self._packages.setdefault(file.package, []).append(idx)
        self._indexes: dict[str, PackageIndex] = {}

    def rows(self, n_tokens: int) -> Iterator[Sample]:
        """Yield rows of exactly ``n_tokens``: samples one after the other, the last one cut."""
        while True:
            row = Sample()
            while (n_left := n_tokens - len(row.tokens)) >= self.n_least:
                sample = self.sample(n_left)
                row.tokens += sample.tokens
                row.targets += sample.targets
                row.weights += sample.weights
            n_missing = n_tokens - len(row.tokens)
            row.tokens += [self._special.end] * n_missing
            row.targets += [self._special.end] * n_missing
            row.weights += [0.0] * n_missing
            yield row

    def sample(self, n_tokens_max: int) -> Sample:
        """Draw one sample that is not longer than ``n_tokens_max``."""
        rng, mix = self._rng, self._mix
        while True:
            # Short samples show more middles, long ones what a whole prompt looks like.
            ratio = math.log(n_tokens_max / _MIN_TOKENS)
            n_tokens = int(_MIN_TOKENS * math.exp(ratio * rng.random()))
            file_idx, index = self._place()
            if rng.random() < mix.documents:
                sample = self._document(file_idx, index, n_tokens_max)
            else:
                found = self._fim(file_idx, index, n_tokens)
                if found is None:
                    continue
                sample = found
            if len(sample.tokens) <= n_tokens_max:
                return sample

    def _place(self) -> tuple[int, int]:
        position = self._rng.randrange(self._ends[-1])
        file_idx = bisect_right(self._ends, position)
        return file_idx, position - (self._ends[file_idx] - len(self._files[file_idx].text))

    def _document(self, file_idx: int, index: int, n_tokens: int) -> Sample:
        file = self._files[file_idx]
        start = 0 if self._rng.random() < _FROM_START else line_start(file.text, index)
        text = FimText(
            repo=file.package,
            path=file.path,
            chunks=(),
            prefix=file.text[start : start + n_tokens * _MAX_CHARS_PER_TOKEN],
            typed="",
            middle="",
            suffix="",
            joined=False,
        )
        sample = document_sample(text, self._special, self._encode, self._mix.weights)
        sample.cut(n_tokens)
        return sample

    def _fim(self, file_idx: int, index: int, n_tokens: int) -> Sample | None:
        file, mix, rng = self._files[file_idx], self._mix, self._rng
        cut = cut_at(file.text, index, rng)
        if cut is None:
            return None
        n_chars = int((n_tokens * 0.9 - 30) * CHARS_PER_TOKEN) - (cut.end - cut.start)
        chunks: tuple[tuple[str, str], ...] = ()
        if rng.random() < mix.repository:
            n_chunk_chars = int(n_chars * rng.uniform(0.2, 0.5))
            chunks = self._chunks(file_idx, cut, n_chunk_chars)
            n_chars -= sum(len(path) + len(text) for path, text in chunks)
        suffix = self._suffix(file.text, cut.end, n_chars)
        start = self._prefix_start(file.text, cut.start, n_chars - len(suffix))
        anchor, joined = cut.start, False
        if rng.random() < mix.anchored:
            anchor = self._anchor(file.text, max(start, 0), cut.start)
            joined = rng.random() < mix.joined
        text = FimText(
            repo=file.package,
            path=file.path,
            chunks=chunks,
            prefix=file.text[start:anchor],
            typed=file.text[anchor : cut.start],
            middle=file.text[cut.start : cut.end],
            suffix=suffix,
            joined=joined,
        )
        return fim_sample(text, self._special, self._encode, mix.weights)

    def _suffix(self, text: str, end: int, n_chars: int) -> str:
        rng, mix = self._rng, self._mix
        kind = rng.random()
        if kind < mix.no_suffix:
            return ""
        n_most = int(max(80, n_chars) * rng.uniform(0.15, 0.4))
        if kind < mix.no_suffix + mix.short_suffix:
            n_most = min(n_most, rng.randint(2, 160))
        suffix = text[end : end + n_most]
        if rng.random() < 0.5 and "\n" in suffix[1:]:
            suffix = suffix[: suffix.rindex("\n") + 1]
        return suffix

    def _prefix_start(self, text: str, cursor: int, n_chars: int) -> int:
        start = max(0, cursor - max(60, n_chars))
        if start == 0:
            return 0
        return min(line_end(text, start) + 1, line_start(text, cursor))

    def _anchor(self, text: str, start: int, cursor: int) -> int:
        rng = self._rng
        anchor = line_start(text, cursor)
        if rng.random() < self._mix.above:
            for _ in range(int(math.exp(rng.uniform(0, math.log(_MAX_LINES_ABOVE + 1))))):
                if anchor <= start:
                    break
                anchor = line_start(text, anchor - 1)
        return max(anchor, start)

    def _chunks(self, file_idx: int, cut: Cut, n_chars: int) -> tuple[tuple[str, str], ...]:
        file, rng = self._files[file_idx], self._rng
        members = self._packages[file.package]
        if len(members) < 2:
            return ()
        if file.package not in self._indexes:
            self._indexes[file.package] = PackageIndex([self._files[idx] for idx in members])
        index = self._indexes[file.package]
        own = bisect_right(members, file_idx) - 1
        places = index.places_for(file.text[cut.start : cut.end], own, rng)
        if len(places) < 3:
            around = file.text[line_start(file.text, max(0, cut.start - 400)) : cut.end]
            known = {place.file_idx for place in places}
            more = index.places_for(around, own, rng)
            places += [place for place in more if place.file_idx not in known]
        places = places[: rng.choice((1, 2, 2, 3))]
        rng.shuffle(places)
        return tuple(
            (index.files[place.file_idx].path, index.window(place, n_chars // len(places)))
            for place in places
        )
