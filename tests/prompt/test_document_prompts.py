"""Which prompt a cursor gets: counted against a cache that holds some former prompts."""

import ast
from copy import copy
from pathlib import Path

import pytest

from speclsp.common_ends import common_head
from speclsp.prompt.chunks import NO_CHUNKS, ContextChunk
from speclsp.prompt.document_prompts import N_PROMPTS, ChunkSource, DocumentPrompts, PromptQuestion
from speclsp.prompt.families import family_for
from speclsp.prompt.prompt import FimText, PromptBudget, PromptLayout

SOURCE = Path(ast.__file__).read_text(encoding="utf-8")
BUDGET = PromptBudget(n_prompt=640, n_chunks=160)
N_FIRST = 240
CHUNK = ContextChunk(path="other.py", text="value = compute(1, 2, 3)\n" * 8, key="other")


class Cache:
    """Prompts that were evaluated, and how much of another one they hold."""

    def __init__(self) -> None:
        self.prompts: list[tuple[int, ...]] = []

    def n_reusable(self, tokens: tuple[int, ...]) -> int:
        return max((common_head(prompt, tokens) for prompt in self.prompts), default=0)

    def evaluate(self, tokens: tuple[int, ...]) -> int:
        n_new = len(tokens) - self.n_reusable(tokens)
        self.prompts = [*self.prompts[-20:], tokens]
        return n_new


class Session:
    """One document's prompts, as the completer asks for them."""

    def __init__(self, vocabulary, layout="anchored", chunks=()) -> None:
        self.layout = PromptLayout(
            family=family_for(vocabulary, ""), vocabulary=vocabulary, layout=layout
        )
        self.places = DocumentPrompts()
        self.cache = Cache()
        self.chunks = chunks
        self.hidden: tuple[str, ...] = ()
        self.n_ranked = 0
        self.prompt = None
        self.question = None

    def ask(self, prefix: str, suffix: str, n_first: int = N_FIRST) -> int:
        """Lay a prompt out and evaluate it; returns how many tokens that took."""
        self.question = PromptQuestion(
            uri="m.py",
            layout=self.layout,
            text=FimText(repo_name="demo", path="m.py", prefix=prefix, suffix=suffix),
            budget=BUDGET,
            n_first=n_first,
            chunks=ChunkSource(ranked=self.ranked, may_show=lambda p: p not in self.hidden),
        )
        self.prompt = self.places.prompt(self.question, self.cache.n_reusable)
        return self.cache.evaluate(self.prompt.tokens)

    def at(self, place: int, **more) -> int:
        return self.ask(SOURCE[:place], SOURCE[place:], **more)

    def ranked(self):
        self.n_ranked += 1
        return self.chunks

    def plan(self):
        return self.places.plan(self.question)

    def settle(self) -> int:
        """Evaluate what is planned, if anything; returns how many tokens that took."""
        planned = self.plan()
        if planned is None:
            return 0
        n_evaluated = self.cache.evaluate(planned.tokens)
        self.places.adopt(planned.excerpt)
        assert self.plan() is None
        return n_evaluated


def line_end(place: int) -> int:
    return SOURCE.index("\n", place)


@pytest.fixture
def session(vocabulary):
    return Session(vocabulary)


HERE, THERE = line_end(20_000), line_end(40_000)


def test_a_jump_waits_for_a_short_prompt_and_idle_time_lays_out_the_rest(session):
    assert 100 < session.at(HERE) <= N_FIRST
    short = session.prompt
    assert short.n_suffix > 20
    assert session.settle() > 350
    assert session.at(HERE) == 0
    assert session.prompt.n_prefix > 2 * short.n_prefix
    assert session.prompt.n_suffix > 2 * short.n_suffix
    assert session.settle() == 0


def test_who_asks_for_more_than_a_jump_gets_the_whole_at_once(session):
    assert session.at(HERE, n_first=640) > 450
    assert session.plan() is None
    # And does not get a short prompt that was laid out for somebody who types.
    other = line_end(30_000)
    session.at(other)
    assert session.at(other, n_first=640) > 450


def test_going_back_to_a_place_evaluates_nothing(session):
    for place in (HERE, THERE):
        session.at(place)
        session.settle()
    assert session.at(HERE) == 0
    assert session.at(THERE) == 0


def test_a_jump_nearby_shares_the_beginning(session):
    session.at(HERE)
    session.settle()
    near = line_end(HERE + 200)
    assert session.at(near) <= 200
    # Not a short prompt: the excerpts are as large as before.
    assert session.prompt.excerpt.n_limit == BUDGET.n_prompt
    assert session.prompt.excerpt.prefix.text.startswith(
        session.places._excerpts[1].prefix.text[:100]
    )


def test_a_line_changed_above_leaves_a_suffix_that_comes_first(load_model):
    session = Session(load_model("codestral"))
    above = SOURCE.rindex("\n", 0, HERE - 100)
    session.at(HERE)
    session.settle()
    session.chunks = (CHUNK,)
    session.at(above)
    session.settle()
    edited = SOURCE[:above] + "\n    x = 1" + SOURCE[above:HERE]
    assert session.ask(edited, SOURCE[HERE:]) <= N_FIRST
    assert session.prompt.excerpt.n_limit == BUDGET.n_prompt


def test_places_are_bounded(session):
    for n in range(2 * N_PROMPTS):
        session.at(line_end(2_000 * (n + 1)))
    assert len(session.places._excerpts) == N_PROMPTS


def test_an_edit_above_the_excerpt_costs_nothing(session):
    session.at(HERE)
    session.settle()
    assert session.ask("# a line more\n" + SOURCE[:HERE], SOURCE[HERE:]) == 0


def test_brackets_that_an_editor_closes_cost_nothing(session):
    session.at(HERE)
    session.settle()
    typed = SOURCE[:HERE] + "\n    call"
    assert session.ask(typed, SOURCE[HERE:]) <= 8
    assert session.ask(typed + "(", ")" + SOURCE[HERE:]) <= 3
    assert session.ask(typed + '(["', '"])' + SOURCE[HERE:]) <= 4
    assert session.ask(typed + '(["a"])', SOURCE[HERE:]) <= 5


def test_enter_between_brackets_costs_nothing_and_the_bracket_is_shown_soon(session, vocabulary):
    session.at(HERE)
    session.settle()
    session.ask(SOURCE[:HERE] + "\n    {", "}" + SOURCE[HERE:])
    below = "\n    }" + SOURCE[HERE:]
    assert session.ask(SOURCE[:HERE] + "\n    {\n        ", below) <= 4
    assert session.prompt.hides_line
    assert session.settle() > 50
    assert session.ask(SOURCE[:HERE] + "\n    {\n        a", below) <= 4
    assert not session.prompt.hides_line
    assert session.prompt.excerpt.suffix.text.startswith("\n    }\n")


@pytest.mark.parametrize("rest", ["", ")", '"])', "}  "])
def test_no_text_is_shown_that_is_not_there(session, vocabulary, rest):
    session.at(HERE)
    session.settle()
    typed = SOURCE[:HERE] + "\n    call("
    session.ask(typed, rest + SOURCE[HERE:])
    shown = b"".join(vocabulary.piece(token) for token in session.prompt.tokens).decode()
    before = typed[len(typed) - session.prompt.n_prefix_chars : session.prompt.excerpt.anchor]
    after = (rest + SOURCE[HERE:])[len(rest) : session.prompt.n_suffix_chars]
    assert shown == "demo\nm.py\n" + before + after + typed[session.prompt.excerpt.anchor :]


@pytest.mark.parametrize(
    "edited",
    [
        # Before the anchor, behind the cursor, on the rest of the cursor's line.
        (SOURCE[: HERE - 400] + "x" + SOURCE[HERE - 400 : HERE], SOURCE[HERE:]),
        (SOURCE[:HERE], "\nnew line" + SOURCE[HERE:]),
        (SOURCE[:HERE], " + 1" + SOURCE[HERE:]),
    ],
)
def test_text_that_was_changed_is_shown_as_it_is(session, vocabulary, edited):
    session.at(HERE)
    session.settle()
    assert session.ask(*edited) > 50
    shown = b"".join(vocabulary.piece(token) for token in session.prompt.tokens).decode()
    anchor = session.prompt.excerpt.anchor
    prefix, suffix = edited
    before = prefix[len(prefix) - session.prompt.n_prefix_chars : anchor]
    after = suffix[: session.prompt.n_suffix_chars]
    assert shown == "demo\nm.py\n" + before + after + prefix[anchor:]


def test_the_anchor_moves_in_idle_time_before_it_has_to(session):
    place = line_end(20_000)
    after = SOURCE[line_end(24_000) :]
    session.ask(SOURCE[:place], after)
    session.settle()
    anchors, waited, idle = set(), [], []
    for end in range(place, place + 1_000):
        waited.append(session.ask(SOURCE[:end], after))
        anchors.add(session.prompt.excerpt.anchor)
        assert session.prompt.n_room >= 0
        idle.append(session.settle())
    assert len(anchors) > 2
    assert max(waited) <= 8
    assert sum(1 for n in idle if n) == len(anchors) - 1


def test_without_idle_time_the_bound_moves_the_anchor(session):
    place = line_end(20_000)
    after = SOURCE[line_end(24_000) :]
    session.ask(SOURCE[:place], after)
    waited = [session.ask(SOURCE[:end], after) for end in range(place, place + 1_000)]
    assert sum(n > 8 for n in waited) <= 5
    assert max(waited) <= N_FIRST


def test_a_plan_stays_the_same_while_it_covers_the_cursor(session):
    after = SOURCE[line_end(24_000) :]
    session.ask(SOURCE[:HERE], after)
    first = session.plan()
    session.ask(SOURCE[:HERE] + "\n    typed = on", after)
    second = session.plan()
    assert second.excerpt == first.excerpt
    session.at(THERE)
    assert session.plan().excerpt != first.excerpt


def test_the_plain_layout_plans_nothing_and_keeps_one_place(vocabulary):
    session = Session(vocabulary, layout="plain")
    session.at(HERE)
    assert session.prompt.n_middle == 0
    assert session.prompt.excerpt.anchor == HERE
    assert session.plan() is None
    session.at(THERE)
    assert len(session.places._excerpts) == 1


def test_chunks_come_in_idle_time_and_stay_over_keystrokes_and_jumps(vocabulary):
    session = Session(vocabulary, chunks=(CHUNK,))
    session.at(HERE)
    assert session.prompt.excerpt.chunks == NO_CHUNKS
    assert session.n_ranked == 0
    session.settle()
    assert session.ask(SOURCE[:HERE] + "\n", SOURCE[HERE:]) <= 2
    assert [c.chunk for c in session.prompt.excerpt.chunks.chunks] == [CHUNK]
    # Another ranking changes nothing until the prompt is laid out anew anyway.
    session.chunks = (ContextChunk(path="new.py", text="x = 1\n" * 5, key="new"), CHUNK)
    assert session.ask(SOURCE[:HERE] + "\n    x", SOURCE[HERE:]) <= 4
    assert session.settle() == 0
    # The chunks that the cache holds stand before a short prompt, too.
    assert session.at(THERE) <= N_FIRST
    assert [c.chunk for c in session.prompt.excerpt.chunks.chunks] == [CHUNK]
    session.settle()
    session.at(THERE)
    assert [c.chunk.key for c in session.prompt.excerpt.chunks.chunks] == ["other", "new"]


def test_chunks_that_are_found_later_are_laid_out_in_idle_time_once(vocabulary):
    session = Session(vocabulary)
    session.at(HERE)
    session.settle()
    session.chunks = (CHUNK,)
    assert session.at(HERE) == 0
    assert session.settle() > 400
    assert session.at(HERE) == 0
    assert [c.chunk for c in session.prompt.excerpt.chunks.chunks] == [CHUNK]
    assert session.settle() == 0


def test_places_that_show_what_must_not_be_shown_are_forgotten(vocabulary):
    session = Session(vocabulary, chunks=(CHUNK,))
    session.at(HERE, n_first=640)
    assert session.prompt.excerpt.chunks.chunks
    session.hidden = (CHUNK.path,)
    session.chunks = ()
    session.at(HERE)
    assert session.prompt.excerpt.chunks == NO_CHUNKS


def test_a_copy_is_used_without_a_change_to_the_places(session):
    session.at(HERE)
    excerpts = session.places._excerpts
    own, session.places = session.places, copy(session.places)
    session.at(THERE)
    assert session.places._excerpts != excerpts
    assert own._excerpts == excerpts
