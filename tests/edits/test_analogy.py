"""Places that an edit may concern, the examples of prompts, and what is shown."""

import pytest

from speclsp.edits.analogy import (
    N_ASKED,
    Pair,
    Place,
    carried_over,
    latest,
    latest_places,
    least_probability,
    next_place,
    pairs_of,
    renaming_of,
    shown_pairs,
)
from speclsp.edits.formats import FORMATS, EditSource
from speclsp.seam.edit import Change
from speclsp.text.code_reader import OUTSIDE, read_code

ANALOGY = FORMATS["analogy"]


def change(old: str, new: str, line: int = 0, path: str = "a.py") -> Change:
    return Change(path=path, line=line, old=old, new=new)


def found(text: str, one: Change) -> list[str]:
    return [place.old for place in latest_places(text, "a.py", 0, [one])]


@pytest.mark.parametrize(
    ("old", "new", "line", "again"),
    [
        # A name: wherever in code it is a word of its own.
        ("f(user_id)", "f(account_id)", "g(user_id, user_id)", "g(account_id, account_id)"),
        ("f(user_id)", "f(account_id)", "g(user_id)  # user_id", "g(account_id)  # user_id"),
        ("f(user_id)", "f(account_id)", "g('user_id')", None),
        ("f('user_id')", "f('account_id')", "g('user_id', user_id)", "g('account_id', user_id)"),
        ("use {Old, other}", "use {other, New}", "Old(other)", None),
        ("f(user_id)", "f(account_id)", "g(self.user_name)", None),
        ("f(user_id)", "f(account_id)", "g(account_id)", None),
        ("a = 1", "b = 1", "c = a", "c = b"),
        # It is none that stays elsewhere in the line, or becomes more than a name.
        ("f(body=body)", "f(text=body)", "body = read()", None),
        ("run(handler)", "run(value.handlers)", "handler, error = find()", None),
        # One that may be a word is changed in code only.
        ("x = get(a)", "x = get_route(a)", "handlers = [get]", "handlers = [get_route]"),
        ("x = get(a)", "x = get_route(a)", "# how to get(b) there", None),
        ("x = get(a)", "x = get_route(a)", "y = 'get(b) there'", None),
        # Words that went are looked for between those around them; punctuation is a word, too.
        ("x = *p.next", "x = p.next", "y = *p.next", "y = p.next"),
        ("f(x, retries)", "f(x)", "f(y, retries)", "f(y)"),
        ("f(x, retries)", "f(x)", "f(y)", None),
        ("f(x, retries)", "f(x)", "unrelated(retries)", None),
        (
            "for i := 0; i < b.N; i++ {",
            "for b.Loop() {",
            "for i := 0; i < b.N; i++ {",
            "for b.Loop() {",
        ),
        ("Equal(t, int(6), s.F)", "Equal(t, 6, s.F)", "Equal(t, int(0), s.F)", "Equal(t, 0, s.F)"),
        ("f(os.Stdout, 1)", "f(writer(), 1)", "g(os.Stdout)", "g(writer())"),
        ("f(Stdout, 1)", "f(writer(), 1)", "g(Stdout)", None),
        # Words that came need lines that are alike, and are not there yet.
        ("load(a, s.mode)", "load(a, s.mode, 1)", "load(b, s.mode)", None),
        ("load(a, s.mode())", "load(a, s.mode(), 1)", "load(b, s.mode())", "load(b, s.mode(), 1)"),
        ("load(a, mode)", "load(a, mode, strict)", "load(b, mode, strict)", None),
        ("load(a, mode)", "load(a, mode, strict)", "unrelated = 1", None),
        ("add(f, 0, 'v')", "add(f, 0, 'v', 'w')", "add(g, 0, 'v')", "add(g, 0, 'v', 'w')"),
        ("(&['v'], &['*.v'])", "(&['v'], &['*.v', '*.w'])", "(&['t'], &['*.t'])", None),
        ("x = call(a, b) + call(c)", "x = call(a, b)? + call(c)", "x = call(a)", None),
    ],
)
def test_a_place_is_where_the_edit_can_be_made_again(old, new, line, again):
    text = f"{new}\n\n{line}\n"
    places = latest_places(text, "a.py", 0, [change(f"{old}\n", f"{new}\n")])
    assert [(one.old, one.guess) for one in places] == ([(line, again)] if again else [])


def test_places_are_found_nearest_first_and_without_the_edit():
    lines = [f"filler_{n}()" for n in range(200)]
    for row in (20, 95, 99, 104, 199):
        lines[row] = f"    use(old_name, {row})"
    lines[100] = "use(new_name, 100)"
    one = change("use(old_name, 100)\n", "use(new_name, 100)\n", 100)
    rows = [int(old.split(", ")[1][:-1]) for old in found("\n".join(lines), one)]
    assert rows == [99, 104, 95]


@pytest.mark.parametrize("edit", ["# of user_id", "f(x)  # of user_id", "/// of user_id"])
def test_an_edit_in_a_comment_has_no_places(edit):
    path = "a.rs" if edit.startswith("/") else "a.py"
    new = edit.replace("user_id", "account_id")
    one = change(f"{edit}\n", f"{new}\n", path=path)
    assert latest_places(f"{new}\n{edit}\ng(user_id)\n", path, 0, [one]) == []


@pytest.mark.parametrize(
    ("edit", "line", "n_places"),
    [
        ("# of user_id\nuse(user_id)", "call(user_id)", 1),
        ("use(user_id)\n# of user_id", "# by user_id", 0),
        ("use(user_id)\nuse('user_id')", "call('user_id')", 1),
        ('"""Of user_id\nand user_id."""', "call(user_id)", 0),
    ],
)
def test_where_an_edit_changes_is_told_line_by_line(edit, line, n_places):
    new = edit.replace("user_id", "account_id")
    assert len(found(f"{new}\n{line}\n", change(f"{edit}\n", f"{new}\n"))) == n_places


def test_a_long_file_is_read_once_and_not_from_its_beginning(monkeypatch):
    n_read = 0

    def counted(language_id, code, start=0, state=OUTSIDE):
        nonlocal n_read
        n_read += len(code) - start
        return read_code(language_id, code, start, state)

    monkeypatch.setattr("speclsp.edits.analogy.read_code", counted)
    monkeypatch.setattr("speclsp.text.rules.read_code", counted)
    lines = [f"f(user_id, {n})\n" for n in range(60_000)]
    # The second time, what is far above is known.
    for name, n_most in (("account_id", 300_000), ("owner_id", 25_000)):
        n_read, row = 0, 59_980
        one = change("f(user_id, 59980)\n", f"f({name}, 59980)\n", row)
        lines[row] = one.new
        assert len(found("".join(lines), one)) == 2 * N_ASKED
        assert n_read < n_most < len("".join(lines)) / 3


def test_a_name_that_the_file_has_already_goes_where_the_line_is_alike():
    """Then another thing is meant from now on, and nothing was given a new name."""
    one = change("f(width, 1, [0])\n", "f(height, 1, [0])\n")
    text = "f(height, 1, [0])\nf(width, 2, [0])\nreturn width\n"
    assert found(text, one) == ["f(width, 2, [0])", "return width"]
    assert found(text + "height = 3\n", one) == ["f(width, 2, [0])"]
    # What the user's own edits put there does not count.
    former = change("height = 1\n", "height = 3\n", 3)
    places = latest_places(text + "height = 3\n", "a.py", 0, [former, one])
    assert len(places) == 2


def test_an_edit_that_the_text_does_not_hold_has_no_places():
    one = change("use(old_name)\n", "use(new_name)\n")
    assert found("something()\nuse(old_name)\n", one) == []


def test_an_edit_of_another_file_has_its_places_here():
    one = change("use(old_name)\n", "use(new_name)\n", path="b.py")
    assert found("something()\nuse(old_name)\n", one) == ["use(old_name)"]


def test_what_is_typed_with_pauses_is_one_edit():
    typed = [change("f(url)\n", "f(ad)\n"), change("f(ad)\n", "f(address)\n")]
    composed = latest(typed)
    assert composed is not None
    assert (composed.old, composed.new) == ("f(url)\n", "f(address)\n")
    # A line that was typed is no edit that could be made again.
    assert found("x = f(1)\nx = f()\n", change("", "x = f(1)\n")) == []
    written = [change("", "x = f(\n"), change("x = f(\n", "x = f(1)\n")]
    assert latest_places("x = f(1)\ny = f(\n", "a.py", 0, written) == []


def test_pairs_are_lines_where_their_number_stays_or_less_come():
    one = change("  a(x)\n  same\n  b(x)\n", "  a(y)\n  same\n  b(y)\n")
    assert pairs_of(one) == [Pair("a(x)", "a(y)"), Pair("b(x)", "b(y)")]
    fewer = change("\tcall(\n\t\ta, b)\n", "\tcall(a, c)\n")
    assert pairs_of(fewer) == [Pair("call(\n\ta, b)", "call(a, c)")]
    assert pairs_of(change("\tcall(a, b)\n", "\tcall(\n\t\ta, c)\n")) == []


def test_earlier_edits_of_the_same_kind_are_examples():
    changes = [
        change("f(old_name)\n", "f(new_name)\n", 3),
        change("other\n", "else\n", 9),
        change("g(old_name)\n", "g(new_name)\n", 6),
    ]
    assert shown_pairs(changes, None) == [
        Pair("f(old_name)", "f(new_name)"),
        Pair("g(old_name)", "g(new_name)"),
    ]


def test_spaces_are_the_places_own():
    pair = Pair("keys  []Address", "parsedKeys []Address  // all")
    assert carried_over(pair, "keys []Address") == "parsedKeys []Address  // all"
    assert carried_over(Pair("f(a, b)", "f(a,\n  b, c)"), "f(a, b)") == "f(a,\n  b, c)"


@pytest.mark.parametrize(
    ("old", "guess", "given", "n_needed"),
    [
        ("g(mode=2)", "g(how=2)", "g", 5),
        ("x = old(1)", "x = new(1)", "x =", 7),
        ("f(x, retries)", "f(x)", "f", 3),
        ("g(b)  # note", "g(b)", "g(b", 4),
        ("return x", "yield x", "", 5),
    ],
)
def test_the_model_is_asked_from_where_the_guess_leaves_the_lines(old, guess, given, n_needed):
    place = Place(0, len(old), old, Pair("", ""), guess)
    assert (place.given, place.n_needed) == (given, n_needed)


def test_the_prompts_of_an_edit_differ_behind_the_last_before():
    text = "f(how=1)\n  g(mode=2)\nh()\n\tk(mode=3)\n"
    one = change("f(mode=1)\n", "f(how=1)\n")
    prompts = ANALOGY.prompts(EditSource(path="a.py", text=text, cursor=0, changes=[one]))
    heads = {prompt.text.rpartition("--- before\n")[0] for prompt in prompts}
    assert heads == {"a.py\n--- before\nf(mode=1)\n+++ after\nf(how=1)\n"}
    assert [prompt.old for prompt in prompts] == ["  g(mode=2)\n", "\tk(mode=3)\n"]
    assert [prompt.text.rpartition("+++ after\n")[2] for prompt in prompts] == ["g", "k"]
    assert [prompt.expected for prompt in prompts] == ["(how=", "(how="]
    assert [ANALOGY.rewritten(prompt, "(how=2") for prompt in prompts] == [
        "  g(how=2)\n",
        "\tk(how=3)\n",
    ]
    assert [ANALOGY.rewritten(prompt, "(mode") for prompt in prompts] == [
        "  g(mode=2)\n",
        "\tk(mode=3)\n",
    ]
    assert [ANALOGY.answer(one, one.again) for one in prompts] == ["(how=2)\n", "(how=3)\n"]


def test_only_near_places_join_what_is_shown():
    text = "x\n" * 60
    regions = [(2 * row, 2 * row + 2) for row in (10, 14, 40, 18)]
    assert next_place(text, regions, 1, []) == 1
    assert next_place(text, regions, 1, [0]) == 1
    assert next_place(text, regions, 2, [0, 1]) == 3
    assert next_place(text, regions, 4, [0, 1, 3]) is None
    assert next_place(text, regions * 3, N_ASKED, []) is None


def test_a_kind_that_was_declined_needs_a_surer_answer():
    declined = [("f(old)\n", "f(new)\n")]
    assert least_probability("g(old)\n", "g(new)\n", declined) == 0.9
    assert least_probability("g(old)\n", "g(other)\n", declined) == 0.0


# Other files

DECLARED = change("def load(path):\n", "def read(path):\n", 3)
USES = "from a import load\n" + "x = 1\n" * 30 + "print(load(1))\n"


@pytest.mark.parametrize(
    ("old", "new", "renamed"),
    [
        ("def load(path):", "def read(path):", ("load", "read")),
        ("async def load(path):", "async def read(path):", ("load", "read")),
        ("func Load(id int) error {", "func Read(id int) error {", ("Load", "Read")),
        ("export const load = 1", "export const read = 1", ("load", "read")),
        ("pub(crate) static LOAD: u8 = 1;", "pub(crate) static READ: u8 = 1;", ("LOAD", "READ")),
        ("LOAD: int = 1", "READ: int = 1", ("LOAD", "READ")),
        # Methods may be others'; what is not declared here, or in a function alone.
        ("    async def load(self):", "    async def read(self):", None),
        ("func (s *Store) Load() {", "func (s *Store) Read() {", None),
        ("x = load(path)", "x = read(path)", None),
        ("    const load = 1", "    const read = 1", None),
        ("    load = 1", "    read = 1", None),
        ("def f(load):", "def f(read):", None),
        # Another function is called from now on.
        ("def f(load): load()", "def f(load): read()", None),
    ],
)
def test_a_declared_name_that_got_another_one_is_renamed(old, new, renamed):
    found = renaming_of([change(f"{old}\n", f"{new}\n")])
    assert (found and (found.old, found.new)) == renamed


def test_a_renaming_goes_on_with_each_use_and_ends_with_another_edit():
    use = change("load(1)\n", "read(1)\n", path="b.py")
    found = renaming_of([DECLARED, use])
    assert found is not None
    assert found.change == DECLARED
    # The old name may stay in the line, such as in a string.
    assert renaming_of([DECLARED, change('f("load", load(1))\n', 'f("load", read(1))\n')]) == found
    assert renaming_of([use]) is None
    assert renaming_of([DECLARED, change("x = 1\n", "x = 2\n")]) is None
    assert renaming_of([DECLARED, change("load(1)\n", "fetch(1)\n")]) is None
    assert renaming_of([]) is None


def test_a_declaration_that_is_typed_with_pauses_is_renamed():
    typed = [
        change("def load(path):\n", "def re(path):\n"),
        change("def re(path):\n", DECLARED.new),
    ]
    found = renaming_of([*typed, change("load(1)\n", "read(1)\n", 9)])
    assert found is not None
    assert (found.change.old, found.change.new) == (DECLARED.old, DECLARED.new)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (USES, "load"),
        ("# load is here\n" + "x = 1\n" * 30 + "print(load(1))\n", "load(1)"),
        ("# load\nx = 'load'\n", None),
        ("payload = 1\n", None),
        # It has something of its own by the old name, or had the new one before.
        (USES + "def load(): pass\n", None),
        (USES + "    load, error = find()\n", None),
        (USES + "\tload: load{1}\n", None),
        (USES + "\tload  *load\n", None),
        (USES + "f(\n    load=1)\n", None),
        (USES + "f($load);\n", None),
        (USES + "assert load == 1\nx.load::<u8>()\nload, other\n", "load"),
        (USES + "def read(): pass\n", None),
        # Each line of this kind would take minutes, and none of them has places.
        ("load, " * 16_000 + "\n" + USES, None),
    ],
)
def test_another_file_is_gone_to_where_it_uses_the_renamed_name(text, at):
    found = renaming_of([DECLARED])
    assert found is not None
    assert found.place(text, "b.py", [DECLARED]) == (text.index(at) if at else None)


def test_what_the_user_renamed_in_another_file_already_is_no_sign_of_another_name():
    found = renaming_of([DECLARED])
    assert found is not None
    text = USES.replace("import load", "import read")
    assert found.place(text, "b.py", [DECLARED]) is None
    use = change("from a import load\n", "from a import read\n", path="b.py")
    assert found.place(text, "b.py", [DECLARED, use]) == text.index("load(1)")


def test_a_file_is_done_once_the_old_name_is_no_word_of_it():
    found = renaming_of([DECLARED])
    assert found is not None
    assert found.is_done("def read(path): payload = _load = load_1\n")
    assert not found.is_done("# load\n")


def test_little_of_a_long_file_is_looked_at(monkeypatch):
    n_read = 0

    def counted(language_id, code, start=0, state=OUTSIDE):
        nonlocal n_read
        n_read += len(code) - start
        return read_code(language_id, code, start, state)

    monkeypatch.setattr("speclsp.edits.analogy.read_code", counted)
    monkeypatch.setattr("speclsp.text.rules.read_code", counted)
    found = renaming_of([DECLARED])
    assert found is not None
    text = ("# load\n" + "x = 1\n" * 30) * 2_000
    assert found.place(text, "b.py", [DECLARED]) is None
    assert n_read < len(text) / 50
    assert found.place("x = 1\n" * 100_000, "b.py", [DECLARED]) is None
    assert n_read < len(text) / 50
