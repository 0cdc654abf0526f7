"""Sides of a comparison that answer by a function, and write down what becomes of them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.askers import Answer, Asker
from benchmarks.cases import EditCase
from benchmarks.peers.contract import PeerOptions, PeerSession
from speclsp.embedded import embedded_target
from speclsp.errors import EngineError
from speclsp.seam.statistics import RequestStats
from tests.benchmarks.scripted_asker import ScriptedAsker

Suggest = Callable[[EditCase, int], Answer | str]


@dataclass(slots=True)
class ScriptedSession:
    """Runs; continues every prompt with the same text."""

    asker: Asker
    text: str = "x"
    fails: bool = False

    def resident_mib(self) -> float:
        return 100.0

    def host_ms_per_step(self) -> float | None:
        return None

    def complete(self, prompt: Sequence[int], n_predict: int) -> Answer:
        if self.fails:
            raise EngineError("it fell over.")
        stats = RequestStats(
            n_prompt=len(prompt),
            n_predicted=n_predict,
            n_target_passes=n_predict,
            n_decode_passes=n_predict - 1,
            ms_predict=10.0 * (n_predict - 1),
        )
        return Answer(text=self.text, stats=stats)


@dataclass(slots=True)
class ScriptedPeer:
    """``log`` is shared: what was opened and closed, in order."""

    name: str
    suggest: Suggest = lambda _case, _n: ""
    log: list[str] = field(default_factory=list)
    missing: str | None = None
    text: str = "x"
    fails: bool = False
    askers: list[ScriptedAsker] = field(default_factory=list)

    def why_not(self, _options: PeerOptions) -> str | None:
        return self.missing

    @contextmanager
    def open(self, options: PeerOptions | None) -> Iterator[PeerSession]:
        self.log.append(f"open {self.name}")
        asker = ScriptedAsker(self.suggest)
        self.askers.append(asker)
        try:
            yield ScriptedSession(asker, self.text, self.fails)
        finally:
            self.log.append(f"close {self.name}")


def peer_options(folder: Path, **options: Any) -> PeerOptions:
    """Return options of a peer with the embedded model, without drafts of others, on one thread."""
    plain: dict[str, Any] = {
        "model": embedded_target(), "draft_model": None, "statistics_file": None,
        "llama_server": None, "n_threads": 1, "n_gpu_layers": 0, "n_context": 1024,
        "n_predict": 16,
    }  # fmt: skip
    return PeerOptions(**{**plain, **options}, folder=folder)
