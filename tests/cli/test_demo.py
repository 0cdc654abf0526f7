import io
import re
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest
from forked_speclsp import run_speclsp
from rich.console import Console
from rich.text import Text

from speclsp.cli.demo import SCENES, Scene, type_scene
from speclsp.cli.demo_screen import DRAFTED_STYLE, Frame, Screen, comparison, picture, render_frame
from speclsp.embedded import sample_project
from speclsp.seam.completer import answered
from speclsp.seam.completion import CompletionRequest, CompletionResult, GeneratedText
from speclsp.seam.documents import Document
from speclsp.seam.statistics import DrafterStats, RequestStats, SessionStats

STATS = SessionStats(
    n_requests=5,
    n_completions=4,
    n_shown=3,
    n_accepted_items=2,
    totals=RequestStats(
        n_prompt=1000,
        n_prompt_evaluated=250,
        n_predicted=60,
        n_target_passes=20,
        n_drafted=50,
        n_accepted=40,
        drafters={"prompt-lookup": DrafterStats(n_drafts=16, n_drafted=50, n_accepted=40)},
    ),
    model="some model",
)
PLAIN = SessionStats(
    totals=RequestStats(n_prompt=1000, n_prompt_evaluated=260, n_predicted=60, n_target_passes=60),
    n_shown=3,
    n_accepted_items=2,
    model="some model",
)
BOTH = {False: PLAIN, True: STATS}


class FakeWindow:
    """Suggests what a table says for the text before the cursor's end."""

    completer = SimpleNamespace(state=lambda: "ready")

    def __init__(self, suggestions: dict[str, str]) -> None:
        self.suggestions = suggestions
        self.text = ""
        self.accepted_chars: list[int] = []
        self.events: list[str] = []

    def open_document(self, document: Document) -> None:
        self.text = document.text

    def change_document(self, uri: str, version: int, text: str) -> None:
        self.text = text

    def save_document(self, uri: str) -> None:
        self.events.append("saved")

    def close_document(self, uri: str) -> None:
        self.events.append("closed")

    def ask(self, request: CompletionRequest, cancel: object) -> Future[CompletionResult]:
        before = self.text[: request.offset]
        found = (text for end, text in self.suggestions.items() if before.endswith(end))
        generated = GeneratedText(completion_id="1", text=next(found, ""))
        return answered(CompletionResult(generated=generated, stats=RequestStats()))

    def shown(self, completion_id: str) -> None:
        self.events.append("shown")

    def accepted(self, completion_id: str, n_chars: int) -> None:
        self.accepted_chars.append(n_chars)


def play(scene: Scene, folder: Path, suggestions: dict[str, str]) -> tuple[Frame, FakeWindow]:
    window = FakeWindow(suggestions)
    return type_scene(scene, folder, window, lambda _: None), window  # type: ignore[arg-type]


def test_ghost_text_that_is_meant_is_taken(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\n# end\n")
    scene = Scene("a.py", "x = 1\n", "value = compute()\n")
    suggestions = {"val": "ue = compute()", "va": "r = 3", "v": ""}
    last, window = play(scene, tmp_path, suggestions)
    assert (tmp_path / "a.py").read_text() == "x = 1\nvalue = compute()\n# end\n"
    assert window.text == "x = 1\nvalue = compute()\n# end\n"
    assert window.accepted_chars == [len("ue = compute()")]
    assert [last.before[a:b] for a, b in last.accepted] == ["ue = compute()"]
    assert window.events == ["shown", "shown", "saved", "closed"]


def test_the_first_lines_of_ghost_text_may_be_meant(tmp_path):
    (tmp_path / "a.py").write_text("")
    scene = Scene("a.py", "", "if a:\n    b()\n    c()\n")
    last, window = play(scene, tmp_path, {"if a:": "\n    b()\n    wrong()\n"})
    assert window.accepted_chars == [len("\n    b()")]
    assert last.before == scene.meant


@pytest.mark.parametrize("scene", SCENES)
def test_scenes_fit_the_sample_project(scene):
    text = (sample_project() / scene.path).read_text()
    head, tail = scene.split(text)
    assert head + tail == text
    compile(head + scene.meant + tail, scene.path, "exec")


def frame() -> Frame:
    before = "def f():\n    return"
    return Frame(
        path="a.py",
        before=before,
        after="\n\nlast_line = 1\n",
        start=0,
        ghost=" 1\n    # more",
        drafted=((1, 2), (7, 9)),
        accepted=((9, 13),),
        n_taking=2,
    )


def rows_of(shown: Frame) -> list[str]:
    console = Console(width=60, record=True, file=io.StringIO())
    console.print(render_frame(shown, 10))
    return [line.strip("│ \n") for line in console.export_text().splitlines()[1:-1]]


def test_a_frame_shows_the_text_the_ghost_text_and_what_follows():
    expected = ["1  def f():", "2      return▏ 1", "3      # more", "4", "5  last_line = 1"]
    assert rows_of(frame()) == expected


def test_a_frame_may_end_with_empty_lines():
    empty = Frame(path="a.py", before="a\n\n", after="", start=0)
    assert rows_of(empty) == ["1  a", "2", "3  ▏"]


def test_accepted_draft_tokens_are_coloured_in_the_ghost_text():
    shown = render_frame(frame(), 10).renderable
    assert isinstance(shown, Text)
    coloured = [shown.plain[s.start : s.end] for s in shown.spans if s.style == DRAFTED_STYLE]
    assert coloured == ["1", "# "]


def test_the_table_compares_both_runs():
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(comparison(BOTH))
    text = " ".join(console.export_text().split())
    assert "without speculation with speculation" in text
    assert "target passes 60 20" in text
    assert "tokens per target pass 1.00 3.00" in text
    assert "draft tokens accepted, prompt-lookup 0 of 0 40 of 50" in text
    assert "prompt tokens evaluated 260 250" in text
    assert "prompt tokens reused 740 750" in text
    assert "suggestions accepted 2 of 3 2 of 3" in text


def test_the_picture_needs_nothing_from_elsewhere():
    svg = picture(frame(), frame(), BOTH)
    assert svg.startswith("<svg xml:space")
    assert "@font-face" not in svg
    assert "prompt-lookup" in svg


@pytest.mark.parametrize("terminal", [True, False])
def test_the_screen_takes_every_call_in_a_terminal_and_elsewhere(terminal):
    screen = Screen(Console(width=80, force_terminal=terminal, file=io.StringIO()), pace=0.0)
    screen.status("Loading the model 40 %")
    screen.show(frame())
    screen.keep(frame())
    screen.close()
    screen.close()
    assert (screen.moment, screen.ends) == (frame(), [frame()])


@pytest.mark.real
def test_the_demo_without_a_terminal(tmp_path):
    svg = tmp_path / "demo.svg"
    options = ["--fast", "--n-predict", "16", "--deadline-ms", "60000", "--svg", str(svg)]
    outcome = run_speclsp("demo", *options, folder=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    stdout = outcome.stdout.decode()
    for scene in SCENES:
        assert f"--- {scene.path}" in stdout
    table = {
        cells[0]: cells[1:]
        for line in stdout.splitlines()
        if len(cells := re.split(r" {2,}", line.strip())) == 3
    }
    assert int(table["suggestions accepted"][1].split(" of ")[0]) >= 5
    assert int(table["draft tokens accepted, suffix"][1].split(" of ")[0]) > 0
    per_pass = [float(cell) for cell in table["tokens per target pass"]]
    assert per_pass[0] == 1.0
    assert per_pass[1] >= 1.3
    assert "\x1b" not in stdout
    assert svg.read_text().startswith("<svg")
    assert [path.name for path in tmp_path.iterdir()] == ["demo.svg"]


@pytest.mark.real
def test_a_demo_without_a_model_says_so(tmp_path):
    outcome = run_speclsp("demo", "--model", str(tmp_path / "missing.gguf"))
    assert outcome.returncode == 1
    assert b"missing.gguf" in outcome.stderr
    assert b"Traceback" not in outcome.stderr
