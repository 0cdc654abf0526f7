"""A session of typing: which requests are made, what is taken, and what is counted."""

import itertools

import pytest
from scripted_models import ScriptedLoader

from benchmarks.askers import Answer, local_asker
from benchmarks.cases import EditCase
from benchmarks.figures import Percentiles
from benchmarks.typing_session import (
    JUMP_KEYS,
    Suggestion,
    TypedSession,
    TypingCounts,
    count_typing,
    keys,
    replay_typing,
)
from speclsp.seam.statistics import RequestStats, SessionStats
from speclsp.settings import Settings
from tests.benchmarks.case_folders import case
from tests.benchmarks.scripted_asker import ScriptedAsker


def nothing(_: EditCase, __: int) -> str:
    return ""


def the_rest(one: EditCase, n_typed: int) -> str:
    return one.typed[n_typed:]


def counted(session: TypedSession) -> TypingCounts:
    return count_typing(session, SessionStats())


def test_without_suggestions_every_key_is_asked_at():
    asker = ScriptedAsker(nothing)
    session = replay_typing([case("ab\n  c")], asker, seed=0)
    assert asker.told == [
        ("enter", "one"),
        *[("ask", "one", n) for n in (0, 1, 2, 5, 6)],
        ("leave", "one"),
    ]
    assert [request.step for request in session.requests] == [
        "jump", "line", "line", "newline", "line",
    ]  # fmt: skip
    assert (session.n_keys, session.n_jumps, session.n_takes) == (4, 1, 0)
    assert (session.n_chars, session.n_chars_saved) == (6, 0)
    assert asker.n_rests == 5


def test_a_fitting_suggestion_is_typed_through_then_noticed_and_taken():
    asker = ScriptedAsker(the_rest)
    session = replay_typing([case("value = 1")], asker, seed=0)
    assert [told for told in asker.told if told[0] in ("ask", "taken")] == [
        ("ask", "one", 0), ("ask", "one", 1), ("ask", "one", 2), ("taken", "lue = 1", 7),
        ("ask", "one", 9),
    ]  # fmt: skip
    assert [request.was_fitting for request in session.requests] == [False, True, True, False]
    assert [request.after_taking for request in session.requests] == [False, False, False, True]
    assert (session.n_keys, session.n_takes, session.n_chars_saved) == (2, 1, 6)


def test_lines_that_fit_are_taken_and_the_rest_of_them_still_fits():
    asker = ScriptedAsker(lambda one, n: one.typed[n:].partition("\n")[0] + "\nwrong()")
    session = replay_typing([case("first()\nsecond()")], asker, seed=0)
    taken = [told for told in asker.told if told[0] == "taken"]
    assert taken == [("taken", "rst()\nwrong()", 5), ("taken", "cond()\nwrong()", 6)]
    fitting = [request.was_fitting for request in session.requests]
    assert fitting == [False, True, True, True, True, True, True, True]  # all but the jump
    assert not any(request.after_taking for request in session.requests)


def test_a_wrong_suggestion_is_typed_over():
    asker = ScriptedAsker(lambda *_: "other")
    session = replay_typing([case("value")], asker, seed=0)
    assert (session.n_keys, session.n_takes) == (5, 0)
    assert not any(request.was_fitting for request in session.requests)


def test_the_human_jumps_between_two_files_of_a_project(tmp_path):
    cases = [
        case("x" * 100, id="one", path="a.py", project=tmp_path),
        case("y" * 30, id="same file", path="a.py", project=tmp_path),
        case("z" * 100, id="other file", path="b.py", project=tmp_path),
        case("w" * 10, id="alone", path="b.py"),
    ]
    asker = ScriptedAsker(nothing)
    session = replay_typing(cases, asker, seed=0)
    order = [told for told in asker.told if told[0] in ("enter", "leave")]
    assert order[:2] == [("enter", "one"), ("enter", "other file")]
    assert order.index(("leave", "one")) < order.index(("enter", "same file"))
    assert order[-2:] == [("enter", "alone"), ("leave", "alone")]
    assert len(order) == 8
    jumps = [idx for idx, request in enumerate(session.requests) if request.step == "jump"]
    assert len(jumps) == session.n_jumps
    gaps = [after - before for before, after in itertools.pairwise(jumps)]
    assert max(gaps) <= JUMP_KEYS[1] + 1
    assert session.n_chars == session.n_keys == 240
    assert len(session.requests) == session.n_keys + session.n_jumps


def test_the_same_seed_replays_the_same_session():
    def told(seed):
        asker = ScriptedAsker(nothing)
        replay_typing([case("x" * 200)], asker, seed=seed)
        return asker.told

    assert told(1) == told(1)
    assert told(1) != told(2)


def test_progress_tells_every_character():
    written: list[int] = []
    replay_typing([case("x" * 90)], ScriptedAsker(nothing), seed=0, progress=written.append)
    assert sum(written) == 90


def answered(source: str, n_evaluated: int, ms: float) -> Answer:
    stats = RequestStats(n_prompt=50, n_prompt_evaluated=n_evaluated, n_target_passes=2)
    if source != "model":
        stats = RequestStats()
    return Answer(text="x", source=source, ms=ms, stats=stats)  # type: ignore[arg-type]


def test_counts_part_steps_and_sources():
    answers = iter(
        [
            answered("model", 40, 9.0),
            answered("memory", 0, 1.0),
            answered("model", 2, 5.0),
            answered("filter", 0, 0.5),
            answered("model", 7, 6.0),
        ]
    )
    session = replay_typing([case("xb\nc")], ScriptedAsker(lambda *_: next(answers)), seed=0)
    counts = counted(session)
    assert {name: (one.n, one.mean) for name, one in counts.evaluated.items()} == {
        "jump": (1, 40.0), "line": (2, 4.5), "newline": (0, 0.0), "all": (3, 49 / 3),
    }  # fmt: skip
    assert {name: (one.n, one.p50) for name, one in counts.ms.items()} == {
        "model": (3, 6.0), "memory": (1, 1.0), "filter": (1, 0.5), "all": (5, 5.0),
    }  # fmt: skip
    assert (counts.n_from_memory, counts.n_filtered, counts.n_target_passes) == (1, 1, 6)
    assert (counts.n_shown, counts.n_requests, counts.n_evaluated) == (5, 5, 49)
    assert counts.evaluated_per_char == 49 / 4
    ahead = RequestStats(n_prompt_evaluated=3, n_predicted=5)
    beside = count_typing(session, SessionStats(n_idle_evaluated=8, prefetch=ahead))
    assert beside.evaluated_per_char == (49 + 8 + 3) / 4
    assert beside.n_prefetch_predicted == 5


def test_the_memorys_share_counts_requests_that_fit():
    def suggest(one, n_typed):
        source = "memory" if n_typed == 1 else "model"
        return Answer(text=one.typed[n_typed:], source=source)  # type: ignore[arg-type]

    counts = counted(replay_typing([case("value = 1")], ScriptedAsker(suggest), seed=0))
    assert (counts.n_fitting, counts.n_fitting_from_memory, counts.memory_share) == (2, 1, 0.5)
    assert (counts.n_after_taking, counts.n_after_taking_from_memory) == (1, 0)


def test_spread():
    assert Percentiles.of([]) == Percentiles()
    assert Percentiles.of([3.0, 1.0, 2.0]).p50 == 2.0
    assert (Percentiles.of([1.0, 2.0]).mean, Percentiles.of([1.0, 2.0]).most) == (1.5, 2.0)


@pytest.fixture
def scripted():
    def run(text, one, **settings):
        changed = Settings(mode="chain", debounce_ms=0, **settings)  # type: ignore[arg-type]
        with local_asker(changed, loader=ScriptedLoader(text)) as asker:
            session = replay_typing([one], asker, seed=0)
            return count_typing(session, asker.statistics())

    return run


def test_a_completers_own_counts_arrive(scripted):
    counts = scripted("return 1", case("return 2", prefix="def f():\n    ", suffix="\n"))
    # "return 1" fits until its last character, then "2" is typed over it.
    assert (counts.n_requests, counts.n_keys, counts.n_takes) == (9, 8, 0)
    assert (counts.n_fitting, counts.n_fitting_from_memory) == (7, 7)
    assert counts.evaluated["all"].n == counts.n_requests - counts.n_from_memory - counts.n_filtered


def test_without_memory_every_request_reaches_the_model(scripted):
    one = case("return 2", prefix="def f():\n    ", suffix="\n")
    counts = scripted("return 1", one, suggestion_memory=False, automatic_filters=False)
    assert counts.evaluated["all"].n == 9
    assert counts.evaluated["jump"].n == 1
    assert counts.memory_share == 0.0
    assert counts.evaluated["line"].p50 <= 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ab", ["a", "b"]),
        ("a\n    b", ["a", "\n    ", "b"]),
        ("\n\n\tb", ["\n", "\n\t", "b"]),
        ("a\r\n  b", ["a", "\r\n  ", "b"]),
        ("\n  \nb", ["\n", " ", " ", "\n", "b"]),
        ("a\n    ", ["a", "\n    "]),
        ("é😀", ["é", "😀"]),
        ("", []),
    ],
)
def test_keys(text, expected):
    assert keys(text) == expected
    assert "".join(keys(text)) == text


@pytest.mark.parametrize(
    ("suggested", "n_replaced", "rest", "suffix", "n_taken"),
    [
        ("value)", 0, "value)", "\n", 6),
        ("value", 0, "values", "\n", 5),
        ("value", 0, "other", "\n", 0),
        ("va", 0, "value", "\n", 0),  # typed faster than read
        ("v a l", 0, "v a l", "\n", 5),
        ("one()\ntwo()", 0, "one()\nthree()", "\n", 5),
        ("one()\ntwo()", 0, "one()", "\nthree()", 5),
        ("one()\ntwo()", 0, "one()", "", 5),
        ("one()\ntwo()", 0, "one() + 1", "\n", 0),
        ("one()\r\ntwo()", 0, "one()\r\nthree()", "\r\n", 5),
        ("a + b)", 1, "a + b", ")\n", 5),
        ("a + b)", 1, "a + bc", ")\n", 0),
        ("a + b)", 0, "a + b", ")\n", 0),
        ("one()\ntwo()\nend", 0, "one()\ntwo()\nfour", "\n", 11),
        ("", 0, "one", "\n", 0),
        ("value", 0, "", "\n", 0),
    ],
)
def test_taken(suggested, n_replaced, rest, suffix, n_taken):
    assert Suggestion(text=suggested, n_replaced=n_replaced).taken(rest, suffix) == n_taken


def test_what_is_left_behind_what_was_typed():
    shown = Suggestion(text="value)", n_replaced=1)
    assert shown.after("va") == Suggestion(text="lue)", n_replaced=1)
    assert shown.after("vo") is None
    assert shown.after("value)") is None
