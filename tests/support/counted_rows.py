"""A stream of samples that can be told apart: a process of its own imports it by this name."""

import itertools
from collections.abc import Iterator
from typing import cast

from training.layouts import Sample
from training.samples import SampleStream


class CountedRows:
    """Each row's tokens are its number."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def rows(self, n_tokens: int) -> Iterator[Sample]:
        """Yield rows of ``n_tokens``."""
        for number in self._numbers:
            yield Sample([number] * n_tokens, [number] * n_tokens, [0.5] * n_tokens)


def counted_rows(_seed: int) -> SampleStream:
    """Return a stream, whatever the seed."""
    return cast("SampleStream", CountedRows())
