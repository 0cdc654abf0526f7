import random

from speclsp.prompt.context.candidates import MAX_CHUNKS, ranked
from speclsp.prompt.context.candidates import candidate as made


def candidate(path: str, text: str, score: float = 0.5, line: int = 0, reason="similar"):
    return made(reason, path, line, text, detail="", score=score)


def test_the_order_depends_on_nothing_but_the_candidates() -> None:
    all_of_them = [
        candidate(f"{n % 7}.py", f"line_{n} = {n}\n", 0.1 * (n % 4), n) for n in range(40)
    ]
    expected = ranked(all_of_them, "")
    assert len(expected) == MAX_CHUNKS
    rng = random.Random(3)
    for _ in range(20):
        rng.shuffle(all_of_them)
        assert ranked(all_of_them, "") == expected


def test_what_is_shown_already_is_left_out() -> None:
    window = candidate("a.py", "def area(box):\n    return box.width\n")
    assert ranked([window], "") == [window]
    assert ranked([window], "x = 1\n  def area(box):\n        return box.width\n") == []


def test_of_two_candidates_with_the_same_lines_the_better_stays() -> None:
    better = candidate("b.py", "one_line()\ntwo_lines()\nthree_lines()\n", 0.9)
    worse = candidate("a.py", "one_line()\ntwo_lines()\n", 0.5)
    other = candidate("c.py", "other_line()\n", 0.1)
    assert ranked([other, worse, better], "") == [better, other]


def test_a_place_has_one_key_for_each_reason() -> None:
    similar = candidate("a.py", "x = 1\n", reason="similar", line=3)
    edited = candidate("a.py", "x = 2\n", reason="edit", line=3)
    assert similar.key != edited.key
    assert similar.text == "x = 1"
