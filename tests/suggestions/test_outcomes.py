"""What became of suggestions: decided once, and only where there was something to see."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from speclsp.request import CompletionRequest, CompletionResult, RequestStats, Trigger
from speclsp.suggestions.outcomes import MAX_GIVEN, READ_S, Outcomes

URI = "file:///a.py"


@dataclass
class Typist:
    """Types in one document, and sees what it is told to see."""

    learned: list[tuple[float, int]] = field(default_factory=list)
    prefix: str = "x = "
    now: float = 0.0
    n_ids: int = 0

    def __post_init__(self) -> None:
        self.outcomes = Outcomes(lambda logprob, n_chars: self.learned.append((logprob, n_chars)))

    def request(self, trigger: Trigger = "automatic") -> CompletionRequest:
        return CompletionRequest(
            uri=URI, path="a.py", repo_name="", prefix=self.prefix, suffix="\n", trigger=trigger
        )

    def see(self, text: str, logprob: float | None = -0.5, trigger: Trigger = "automatic") -> str:
        """Get a suggestion and have it on screen."""
        self.n_ids += 1
        completion_id = str(self.n_ids)
        result = CompletionResult(
            completion_id=completion_id,
            text=text,
            finish_reason="stop",
            stats=RequestStats(),
            mean_logprob=logprob,
        )
        self.outcomes.given(self.request(trigger), result)
        self.outcomes.shown(completion_id, self.now)
        return completion_id

    def wait(self, seconds: float = READ_S) -> None:
        self.now += seconds

    def type(self, text: str) -> None:
        self.prefix += text
        self.outcomes.asked(self.request(), self.now)

    def take(self, completion_id: str, n_chars: int | None = None) -> None:
        self.outcomes.accepted(completion_id, n_chars, self.now)


def kept_requests(root: object) -> list[CompletionRequest]:
    """Everything that ``root`` keeps alive, followed through its containers and fields."""
    seen: dict[int, object] = {}
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if id(value) not in seen and not callable(value):
            seen[id(value)] = value
            waiting += gc.get_referents(value)
    return [value for value in seen.values() if isinstance(value, CompletionRequest)]


@pytest.fixture
def typist() -> Typist:
    return Typist()


def test_taken_by_a_key(typist: Typist) -> None:
    typist.take(typist.see("foo()"))
    assert typist.learned == [(-0.5, 5)]
    typist.type("foo()")
    assert typist.learned == [(-0.5, 5)]


def test_read_and_not_taken(typist: Typist) -> None:
    typist.see("foo()")
    typist.wait()
    typist.type("b")
    assert typist.learned == [(-0.5, 0)]


def test_typed_over_unread(typist: Typist) -> None:
    typist.see("foo()")
    typist.wait(READ_S / 2)
    typist.type("b")
    assert typist.learned == []


def test_typed_through_to_the_end(typist: Typist) -> None:
    typist.see("foo()")
    for character in "foo()":
        typist.type(character)
    assert typist.learned == [(-0.5, 5)]


def test_inserted_by_an_editor_that_does_not_say_so(typist: Typist) -> None:
    typist.see("foo()")
    typist.type("foo()\ny = ")
    assert typist.learned == [(-0.5, 5)]


def test_rests_are_one_with_what_they_are_the_rest_of(typist: Typist) -> None:
    typist.see("foo(a)")
    typist.type("f")
    typist.see("oo(a)", -0.9)
    typist.type("o")
    last = typist.see("o(a)\nbar", -0.9)  # which goes on where the first ended
    assert typist.learned == []
    typist.take(last)
    assert typist.learned == [(-0.5, 8)]


def test_a_text_in_the_place_of_another_decides_that(typist: Typist) -> None:
    typist.see("foo()")
    typist.wait()
    typist.see("bar()", -0.2)
    assert typist.learned == [(-0.5, 0)]
    typist.wait()
    typist.type("q")
    assert typist.learned == [(-0.5, 0), (-0.2, 0)]


def test_taken_word_by_word(typist: Typist) -> None:
    shown = typist.see("foo bar baz")
    typist.take(shown, 4)
    typist.type("foo ")
    typist.take(shown, 8)
    typist.type("bar ")
    assert typist.learned == []
    typist.wait()
    typist.type("q")
    assert typist.learned == [(-0.5, 8)]


@pytest.mark.parametrize("how", ["moved away", "deleted", "closed", "ended"])
def test_left(how: str, typist: Typist) -> None:
    typist.see("foo()")
    typist.wait()
    steps: dict[str, Callable[[], None]] = {
        "moved away": lambda: setattr(typist, "prefix", "something else, and longer "),
        "deleted": lambda: setattr(typist, "prefix", "x ="),
        "closed": lambda: typist.outcomes.forget(URI, typist.now),
        "ended": lambda: typist.outcomes.end_all(typist.now),
    }
    steps[how]()
    typist.type("")
    assert typist.learned == [(-0.5, 0)]


def test_what_was_asked_for_by_hand_teaches_nothing(typist: Typist) -> None:
    typist.take(typist.see("foo()", trigger="invoked"))
    typist.take(typist.see("foo()", logprob=None))
    typist.take("unknown")
    assert typist.learned == []


def test_what_was_not_shown_teaches_nothing(typist: Typist) -> None:
    request = typist.request()
    result = CompletionResult(
        completion_id="1", text="foo", finish_reason="stop", stats=RequestStats(), mean_logprob=-1.0
    )
    typist.outcomes.given(request, result)
    typist.wait()
    typist.type("b")
    typist.take("1")
    assert typist.learned == []


def test_line_ends_of_the_file(typist: Typist) -> None:
    typist.see("if a:\r\n    b")
    typist.type("if a:\n    b")
    assert typist.learned == [(-0.5, 11)]


def test_few_requests_are_kept_whole(typist) -> None:
    for n_typed in range(5 * MAX_GIVEN):
        typist.type("x" * 50)
        typist.see(f"y = {n_typed}")
    assert len(kept_requests(typist.outcomes)) == MAX_GIVEN
