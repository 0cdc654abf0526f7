"""An asker for replays that answers by a function, and writes down what it was told."""

from collections.abc import Callable

from benchmarks.askers import Answer
from benchmarks.cases import EditCase
from speclsp.seam.statistics import SessionStats


class ScriptedAsker:
    """Answers with ``suggest(case, n_typed)``; completion ids count the requests."""

    def __init__(self, suggest: Callable[[EditCase, int], Answer | str]) -> None:
        self.suggest = suggest
        self.told: list[tuple[object, ...]] = []
        self.n_rests = 0
        self.n_asked = 0

    def enter(self, case: EditCase) -> None:
        self.told.append(("enter", case.id))

    def leave(self, case: EditCase) -> None:
        self.told.append(("leave", case.id))

    def ask(self, case: EditCase, n_typed: int) -> Answer:
        self.n_asked += 1
        self.told.append(("ask", case.id, n_typed))
        answer = self.suggest(case, n_typed)
        return Answer(text=answer) if isinstance(answer, str) else answer

    def shown(self, answer: Answer) -> None:
        self.told.append(("shown", answer.text))

    def taken(self, answer: Answer, n_chars: int) -> None:
        self.told.append(("taken", answer.text, n_chars))

    def rest(self) -> None:
        self.n_rests += 1

    def statistics(self) -> SessionStats:
        return SessionStats()
