"""Stop strings in a text that comes in parts, beside a search for each alone."""

import random

from speclsp.text.stop_strings import StopStrings


def found_by_search(stops: list[str], text: str, before: int) -> tuple[int, str] | None:
    """Return the first stop string that ends after ``before``; what ended earlier was found."""
    places = [(text.find(stop, max(0, before - len(stop) + 1)), stop) for stop in stops]
    return min((found for found in places if found[0] >= 0), default=None)


def test_they_are_found_where_a_search_for_each_finds_them():
    draw = random.Random(5)
    n_found = n_held = 0
    for _ in range(3000):
        stops = ["".join(draw.choices("ab\n", k=draw.randint(1, 5))) for _ in range(4)]
        finder, text = StopStrings(stops), ""
        while len(text) < 20:
            new = "".join(draw.choices("abc\n", k=draw.randint(1, 4)))
            expected = found_by_search(stops, text + new, len(text))
            place = finder.feed(new)
            if expected is not None:
                assert place == (expected[0] - len(text), expected[1])
                n_found += 1
                break
            assert place is None
            text += new
            held = [n for n in range(6) if any(s.startswith(text[len(text) - n :]) for s in stops)]
            assert finder.n_held == max(n for n in held if n <= len(text))
            n_held += finder.n_held > 0
    assert n_found > 2000
    assert n_held > 1000


def test_without_stop_strings_nothing_is_held_back():
    finder = StopStrings(["", ""])
    assert finder.feed("abc") is None
    assert finder.n_held == 0


def test_a_character_takes_few_steps_however_many_strings_there_are():
    """A search for each would take 10,000 steps for each character."""
    finder = StopStrings([f"{number:04}\n" for number in range(10_000)])
    n_steps = 0
    step = finder._after

    def counted(state, character):
        nonlocal n_steps
        n_steps += 1
        return step(state, character)

    finder._after = counted  # type: ignore[method-assign]
    text = "0123 4567 9999 " * 100
    assert finder.feed(text) is None
    assert n_steps == len(text)
