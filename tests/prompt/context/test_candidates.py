import random

from speclsp.prompt.chunks import ContextChunk
from speclsp.prompt.context.candidates import (
    MAX_CHUNKS,
    definition_candidates,
    edited_candidates,
    ranked,
)
from speclsp.prompt.context.definitions import DefinitionTable, outline_of
from speclsp.prompt.context.edited_regions import EditedRegion
from speclsp.seam.completion import CompletionRequest
from speclsp.seam.request import PlacedRequest


def candidate(path: str, text: str, score: float = 0.5, line: int = 0) -> ContextChunk:
    return ContextChunk(path=path, text=text, key=f"{path}:{line}", first_line=line, score=score)


def test_the_order_depends_on_nothing_but_the_candidates():
    all_of_them = [
        candidate(f"{n % 7}.py", f"line_{n} = {n}\n", 0.1 * (n % 4), n) for n in range(40)
    ]
    expected = ranked(all_of_them, "")
    assert len(expected) == MAX_CHUNKS
    rng = random.Random(3)
    for _ in range(20):
        rng.shuffle(all_of_them)
        assert ranked(all_of_them, "") == expected


def test_what_is_shown_already_is_left_out():
    window = candidate("a.py", "def area(box):\n    return box.width\n")
    assert ranked([window], "") == [window]
    assert ranked([window], "x = 1\n  def area(box):\n        return box.width\n") == []


def test_of_two_candidates_with_the_same_lines_the_better_stays():
    better = candidate("b.py", "one_line()\ntwo_lines()\nthree_lines()\n", 0.9)
    worse = candidate("a.py", "one_line()\ntwo_lines()\n", 0.5)
    other = candidate("c.py", "other_line()\n", 0.1)
    assert ranked([other, worse, better], "") == [better, other]


def test_a_place_has_one_key_for_each_reason_and_edits_come_first():
    text = "limit = 3\n"
    typed = "from models import limit\n"
    request = PlacedRequest(
        plain=CompletionRequest(uri="u", version=1, offset=len(typed)),
        text=typed,
        cursor=len(typed),
        path="b.py",
        repo_name="",
        language_id="python",
        file="",
    )
    table = DefinitionTable({"models.py": outline_of("models.py", text)})
    (definition,) = definition_candidates(request, table, lambda _: text, "")
    regions = [
        EditedRegion(uri="u", path="models.py", first_line=0, end_line=1, number=number)
        for number in range(9)
    ]
    *_, edited = edited_candidates(regions, {"u": text.split("\n")})
    assert definition.key != edited.key
    assert definition.score < edited.score
    assert definition.text == edited.text == text.rstrip("\n")
