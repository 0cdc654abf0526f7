"""Prompts of next-edit models: as recorded, as documented, and what answers mean."""

import pytest
from recorded_edits import RecordedAnswer, recorded_answers

from speclsp.edits.formats import (
    FORMATS,
    EditSource,
    Sweep8,
    Sweep21,
    Zeta1,
    Zeta2,
    Zeta21,
    format_of,
)
from speclsp.errors import EditRefusedError
from speclsp.seam.edit import Change

ANSWERS = recorded_answers()
TEXT = "".join(f"line {number}\n" for number in range(1, 41))
CHANGE = Change(path="a.py", line=19, old="line 20 was\n", new="line 20\n", before="line 19\n")


def source(cursor_line: int = 20, text: str = TEXT, **others: object) -> EditSource:
    lines = text.splitlines(keepends=True)
    cursor = len("".join(lines[: cursor_line - 1])) + 2
    return EditSource(path="a.py", text=text, cursor=cursor, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", ["zeta", "zeta-2"])
def test_prompts_are_as_recorded_byte_for_byte(model):
    recorded = [one for one in ANSWERS if one.model == model]
    assert len(recorded) >= 19
    for one in recorded:
        prompt = one.edit_format.prompt(one.source, one.prompt.region)
        assert prompt.text == one.sent, one.scenario


def test_recorded_texts_are_the_scenarios_own():
    """What was read back from the prompts is what the scenarios say."""
    first = [one for one in ANSWERS if one.is_first]
    assert len(first) >= 80
    for one in first:
        assert one.source.text.rstrip() == one.buffer.rstrip(), one.scenario


def answers_of(name: str) -> list[RecordedAnswer]:
    return [one for one in ANSWERS if one.edit_format.name == name]


@pytest.mark.parametrize("name", [Sweep8.name, Zeta1.name, Zeta2.name])
def test_the_answer_that_changes_nothing_is_read_as_such(name):
    for one in answers_of(name):
        answer = one.edit_format.answer(one.prompt, one.prompt.old)
        assert one.edit_format.rewritten(one.prompt, answer) == one.prompt.old, one.scenario


@pytest.mark.parametrize("name", [Sweep8.name, Zeta1.name, Zeta2.name])
def test_recorded_answers_are_read(name):
    """Whole rewrites of the region: no mark is left, and the last lines are the region's."""
    for one in answers_of(name):
        new = one.edit_format.rewritten(one.prompt, one.answer)
        assert new is not None
        assert not any(mark in new for mark in (*one.edit_format.control, *one.edit_format.marks))
        assert new.endswith("\n") == one.prompt.old.endswith("\n")


@pytest.mark.parametrize("name", list(FORMATS))
@pytest.mark.parametrize("cursor_line", [1, 2, 20, 40])
@pytest.mark.parametrize("ended", [True, False])
def test_every_format_reads_its_own_answers(name, cursor_line, ended):
    one = FORMATS[name]
    text = TEXT if ended else TEXT.removesuffix("\n")
    prompt = one.prompt(source(cursor_line, text, changes=[CHANGE]))
    assert prompt.old == text[prompt.region.start : prompt.region.end]
    lines = prompt.old.splitlines(keepends=True)
    for place in range(len(lines)):
        new = "".join([*lines[:place], "inserted\n", *lines[place:]])
        answer = one.answer(prompt, new)
        if new.startswith(prompt.prefill):
            assert one.rewritten(prompt, answer) == new


@pytest.mark.parametrize("name", list(FORMATS))
def test_the_region_holds_the_cursors_line(name):
    for line in (1, 7, 40):
        given = source(line)
        region = FORMATS[name].region(given.text, given.cursor)
        assert region.context_start <= region.start <= given.cursor < region.end
        assert region.end <= region.context_end <= len(TEXT)
        assert TEXT[: region.start].endswith("\n") or region.start == 0


@pytest.mark.parametrize("name", list(FORMATS))
@pytest.mark.parametrize("text", ["", "x", "\n", "\n\n\n"])
def test_small_texts_have_prompts(name, text):
    one = FORMATS[name]
    for cursor in range(len(text) + 1):
        prompt = one.prompt(EditSource(path="a.py", text=text, cursor=cursor))
        assert one.rewritten(prompt, one.answer(prompt, "a = 1\n" + text)) is not None


@pytest.mark.parametrize("name", list(FORMATS))
def test_texts_that_hold_the_formats_own_marks_are_refused(name):
    one = FORMATS[name]
    for mark in (*one.control, *one.marks):
        for given in (
            source(text=TEXT + mark),
            source(changes=[Change(path="b.py", line=0, old=mark, new="")]),
            source(files=[("c.py", mark)]),
        ):
            with pytest.raises(EditRefusedError, match="has a meaning"):
                one.prompt(given)


@pytest.mark.parametrize("answer", ["", "NO_EDITS", "KEEP_PREVIOUS\n", "  \n"])
@pytest.mark.parametrize("name", list(FORMATS))
def test_answers_that_mean_no_edit(name, answer):
    one = FORMATS[name]
    assert one.rewritten(one.prompt(source()), answer) is None


def test_sweep_8():
    text = "one\ntwo\nthree\nfour\n"
    change = Change(path="a.py", line=1, old="2\n", new="two\n", before="one\n", after="three\n")
    given = EditSource(
        path="a.py", text=text, cursor=text.index("three"), changes=[change],
        files=[("b.py", "other\n")],
    )  # fmt: skip
    prompt = FORMATS[Sweep8.name].prompt(given)
    assert prompt.prefill == "one\n"
    assert prompt.text == (
        "<|file_sep|>a.py\none\ntwo\nthree\nfour\n"
        "<|file_sep|>b.py\nother\n"
        "<|file_sep|>a.py:1:3\noriginal:\none\n2\nthree\nupdated:\none\ntwo\nthree\n"
        "<|file_sep|>original/a.py:1:4\none\n2\nthree\nfour\n"
        "<|file_sep|>current/a.py:1:4\none\ntwo\n<|cursor|>three\nfour\n"
        "<|file_sep|>updated/a.py:1:4\none\n"
    )


def test_sweep_8_takes_back_changes_until_one_does_not_match():
    changes = [
        Change(path="a.py", line=0, old="0\n", new="not there\n"),
        Change(path="a.py", line=0, old="1\n", new="one\n"),
        Change(path="b.py", line=0, old="9\n", new="two\n"),
        Change(path="a.py", line=1, old="2\n", new="two\n"),
    ]
    given = EditSource(path="a.py", text="one\ntwo\n", cursor=0, changes=changes)
    prompt = FORMATS[Sweep8.name].prompt(given).text
    assert "<|file_sep|>original/a.py:1:2\n1\n2\n" in prompt


def test_sweep_8_shows_the_same_part_of_a_long_file_while_the_cursor_moves():
    text = "".join(f"line {number}\n" for number in range(2000))
    one = FORMATS[Sweep8.name]
    shown = {
        one.prompt(source(line, text)).text.partition("<|file_sep|>original/")[0]
        for line in range(1001, 1050)
    }
    assert len(shown) == 1
    assert "line 1000\n" in shown.pop()


def test_sweep_21():
    one = FORMATS[Sweep21.name]
    prompt = one.prompt(source(20, changes=[CHANGE], files=[("b.py", "other")]))
    window = "".join(f"line {number}\n" for number in range(10, 31))
    assert prompt.old == window
    assert prompt.text == (
        "<|file_sep|>b.py\nother\n"
        "<|file_sep|>a.py.diff\noriginal:\nline 20 was\nupdated:\nline 20\n"
        f"<|file_sep|>original/a.py\n{window.replace('line 20', 'line 20 was')}"
        f"<|file_sep|>current/a.py\n{window}"
        "<|file_sep|>updated/a.py\n"
    )


def test_zeta_2_1_marks_blocks_and_reads_spans():
    one = FORMATS[Zeta21.name]
    text = "".join(f"a{n}\n" for n in range(8)) + "\n" + "".join(f"b{n}\n" for n in range(8))
    prompt = one.prompt(EditSource(path="a.py", text=text, cursor=1))
    assert "<|marker_1|>a<|user_cursor|>0\n" in prompt.text
    assert "\n\n<|marker_2|>b0\n" in prompt.text
    assert prompt.text.endswith("b7\n<|marker_3|>\n<[fim-middle]>")
    new = text.replace("b3", "changed")
    assert one.answer(prompt, new).startswith("<|marker_2|>b0\n")
    assert one.answer(prompt, new).endswith("b7\n<|marker_3|>")
    assert one.rewritten(prompt, one.answer(prompt, new)) == new
    assert one.rewritten(prompt, "<|marker_2|><|marker_2|>") is None
    # Line ends behind the marks, as other versions write them.
    spaced = one.answer(prompt, new).replace("|>b0", "|>\nb0")
    assert one.rewritten(prompt, spaced) == new
    for damaged in ("<|marker_9|>x<|marker_10|>", "<|marker_2|>x<|marker_1|>", "x", "<|marker_1|>"):
        assert one.rewritten(prompt, damaged) is None


def test_seed_formats_mark_what_was_accepted_and_show_few_changes():
    changes = [Change(path=f"{n}.py", line=0, old="a\n", new="b\n") for n in range(9)]
    changes.append(Change(path="large.py", line=0, old="", new="x" * 7000 + "\n"))
    changes.append(Change(path="last.py", line=4, old="a\n", new="b\n", is_accepted=True))
    prompt = FORMATS[Zeta2.name].prompt(source(changes=changes)).text
    assert "// User accepted prediction:\n--- a/last.py\n+++ b/last.py\n@@ -5,1 +5,1 @@" in prompt
    assert "large.py" not in prompt
    assert [f"{n}.py" in prompt for n in range(9)] == [False] * 4 + [True] * 5


def test_a_format_follows_from_name_and_vocabulary():
    everything = {"<|file_sep|>": 1, "<[fim-suffix]>": 2, "<[fim-prefix]>": 3, "<[fim-middle]>": 4}

    def named(name, tokens=everything):
        found = format_of(name, tokens.get)
        return found.name if found is not None else None

    assert named("models/sweep-next-edit-1.5b.q8_0.gguf") == Sweep8.name
    assert named("embedded-edit-q8_0.gguf") == Sweep21.name
    assert named("zed-industries/zeta-2") == Zeta2.name
    assert named("zeta-2.1-Q4_K_M.gguf") == Zeta21.name
    assert named("bartowski/zed-industries_zeta-GGUF") == Zeta1.name
    assert named("qwen2.5-coder-1.5b.gguf") is None
    assert named("zeta-2.gguf", {"<[fim-suffix]>": 2}) is None


@pytest.mark.parametrize("name", list(FORMATS))
def test_the_region_is_found_in_a_prompt_that_another_program_wrote(name):
    """What the model says where it changes nothing, or for Zeta 2.1 all of its blocks."""
    one = FORMATS[name]
    for cursor_line in (1, 20, 40):
        prompt = one.prompt(source(cursor_line, changes=[CHANGE]))
        found = one.unchanged(prompt.text)
        assert found is not None
        assert one.rewritten(prompt, found) == prompt.old
        assert [two.name for two in FORMATS.values() if two.unchanged(prompt.text)] in (
            [name],
            [Sweep8.name, Sweep21.name],
        )
        assert one.unchanged(prompt.text + "x = 1\n") is None or "sweep" in name
        assert one.unchanged(TEXT) is None


@pytest.mark.parametrize("name", [Sweep8.name, Zeta1.name, Zeta2.name])
def test_the_region_is_found_in_recorded_prompts(name):
    for one in answers_of(name):
        expected = one.edit_format.answer(one.prompt, one.prompt.old)
        assert one.edit_format.unchanged(one.prompt.text) == expected, one.scenario
