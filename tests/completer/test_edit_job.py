"""Next edits behind a window: prompts, drafts, recorded answers of real models, filters."""

import asyncio
import contextlib
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from indexed_project import write
from recorded_edits import RecordedAnswer, recorded_answers
from scripted_models import ScriptedLoader
from scripted_remote import ScriptedRemote
from secret_forms import planted_secrets
from shared_engine import AcrossSocket
from typed_requests import document_of
from waiting import until

from speclsp.backends.http.messages import Piece, RemoteModel, RemoteParams, RemotePrompt
from speclsp.backends.http.target import RemoteLoader
from speclsp.backends.weights import LlamaLoader
from speclsp.completer import loaded_models
from speclsp.completer.edit_prompts import edit_format
from speclsp.completer.local import LocalCompleter
from speclsp.edits.edit import smallest_edit
from speclsp.edits.formats import FORMATS, EditFormat, EditPrompt, EditSource, Region
from speclsp.embedded import embedded_draft
from speclsp.errors import EngineUnavailableError, SettingsError
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionRequest, CompletionResult
from speclsp.seam.documents import Document, WorkspaceFolder
from speclsp.seam.edit import EditRequest, EditResult
from speclsp.seam.events import Problem
from speclsp.secrets.masked_text import PLACEHOLDER
from speclsp.settings import Settings
from speclsp.window.window import Window

WAIT_S = 60
URI = "file:///p/a.py"
CODE = "def total(prices):\n    result = 0\n    for price in prices:\n        result += price\n"


CART = """class Cart:
    def __init__(self):
        self.items = []

    def add(self, item):
        self.items.append(item)

    def total(self):
        return sum(item.price for item in self.items)

    def clear(self):
        self.items = []
"""


class ReplayingRemote(ScriptedRemote):
    """Answers every prompt with ``answer``, in pieces of three characters.

    Each piece has ``probability``; None tells none.
    """

    def __init__(self, model: str) -> None:
        super().__init__(
            model=RemoteModel(kind="llama-server", name=model, n_ctx=4096, takes_text=True)
        )
        self.answer = ""
        self.probability: float | None = None

    def answer_to(self, prompt: RemotePrompt) -> str:
        return self.answer

    def stream(
        self,
        prompt: RemotePrompt,
        params: RemoteParams,
        interrupted: Callable[[], bool],
        deadline_s: float,
    ) -> Generator[Piece]:
        self.sent.append((prompt, params))
        answer = self.answer_to(prompt)
        told = () if self.probability is None else (math.log(self.probability),)
        for start in range(0, len(answer), 3):
            if interrupted():
                return
            yield Piece(answer[start : start + 3], logprobs=told)


class Edited:
    """A window whose only document is typed into, and asked for next edits."""

    def __init__(self, completer: Any, settings: Settings, path: str = "a.py") -> None:
        self.window = Window(completer, settings)
        self.path = path
        self.version = 0
        completer.start()
        # An engine gets a document as it is by then.
        until(lambda: completer.state() != "loading")

    def close(self) -> None:
        self.window.close()

    def become(self, text: str) -> None:
        self.version += 1
        if self.version > 1:
            self.window.change_document(URI, self.version, text)
            return
        self.window.open_document(document_of(text, uri=URI, path=self.path, language_id="python"))

    def ask(self, offset: int, **fields: Any) -> EditResult:
        return self.answer(asking(offset, version=self.version, **fields))

    def answer(self, request: EditRequest) -> EditResult:
        return asyncio.run(self.window.next_edits.next_edit(request, CancellationToken()))

    def complete(self, offset: int, trigger: Any = "invoked") -> CompletionResult:
        request = CompletionRequest(
            uri=URI, version=self.version, offset=offset, wait_for_model=True, trigger=trigger
        )
        return asyncio.run(self.window.complete(request, CancellationToken()))

    def events(self) -> list[Any]:
        return [*iter(lambda: self.window.completer.next_event(0.1), None)]


def asking(offset: int, **fields: Any) -> EditRequest:
    return EditRequest(**{"uri": URI, "version": 1, **fields}, offset=offset, wait_for_model=True)


def edited_text(result: EditResult, text: str) -> str:
    return smallest_edit(result.hunks, text).applied_to(text)


@pytest.fixture
def make(closed):
    def make_one(engine=None, *, kind=LocalCompleter, local=None, **settings):
        path = settings.pop("path", "a.py")
        given = Settings(persist=False, idle_work="never", **settings)
        loader = None
        if engine is not None:
            given = replace(given, engine_url="http://desk:8080")
            loader = RemoteLoader(local or ScriptedLoader(), lambda _settings, _key: engine)
        return closed(Edited(kind(given, loader=loader, clock=time.perf_counter), given, path))

    return make_one


# What real models answered


@pytest.fixture
def remote():
    return ReplayingRemote("zeta-2")


class AsRecorded(EditFormat):
    """A format whose prompt and region are those of one recorded answer."""

    shows_files = False

    def __init__(self, one: RecordedAnswer) -> None:
        self.one = one
        self.name = one.edit_format.name
        self.control, self.marks, self.stops = (), one.edit_format.marks, one.edit_format.stops

    def region(self, text: str, cursor: int) -> Region:
        assert text == self.one.source.text
        return self.one.prompt.region

    def _prompt(self, source: EditSource, region: Region) -> EditPrompt:
        assert [change.new for change in source.changes] == [c.new for c in self.one.changes]
        return self.one.prompt

    def answer(self, prompt: EditPrompt, new: str) -> str:
        return self.one.edit_format.answer(prompt, new)

    def _rewritten(self, prompt: EditPrompt, answer: str) -> str | None:
        return self.one.edit_format.rewritten(prompt, answer)


def test_all_98_answers_make_exact_buffers_or_stay_quiet(make, monkeypatch, remote):
    """Each as the answer of a remote engine to its own prompt; losses are in tests/edits."""
    counts: Counter[str] = Counter()
    for one in recorded_answers():
        monkeypatch.setitem(FORMATS, one.edit_format.name, AsRecorded(one))
        remote.answer = one.answer
        edited = make(remote, edit_format=one.edit_format.name, path=one.source.path)
        monkeypatch.setattr(edited.window._documents, "changes", lambda one=one: tuple(one.changes))
        edited.become(one.source.text)
        result = edited.ask(one.source.cursor)
        assert remote.sent[-1][0].text == one.sent
        if one.is_quiet:
            counts["not quiet" if result.hunks else "quiet"] += 1
        elif not result.hunks:
            counts[result.withheld] += 1
        else:
            after = edited_text(result, one.source.text)
            shown = one.source.text
            for hunk in reversed(result.hunks):
                shown = hunk.applied_to(shown)
            assert shown == after
            counts["exact" if after.rstrip() == one.expected.rstrip() else "other"] += 1
    # "other" edits are the model's own text, and not the scenario's.
    assert counts == {
        "exact": 16,
        "other": 32,
        "unchanged": 15,
        "above-cursor": 7,
        "undoes": 3,
        "quiet": 23,
        "not quiet": 2,
    }


# What models are sent


def test_the_prompt_has_the_trail_and_the_region(make, remote):
    remote.answer = CODE.replace("result", "total") + ">>>>>>> UPDATED\n"
    edited = make(remote, edit_format="zeta-2")
    edited.become(CODE.replace("prices", "numbers"))
    edited.become(CODE)
    result = edited.ask(CODE.index("result"))
    (prompt, _params) = remote.sent[0]
    assert "-def total(numbers):\n" in prompt.text
    assert "+def total(prices):\n" in prompt.text
    assert f"<<<<<<< CURRENT\n{CODE[:23]}<|user_cursor|>{CODE[23:]}=======\n" in prompt.text
    assert edited_text(result, CODE) == CODE.replace("result", "total")
    assert not result.is_far


@pytest.mark.parametrize(
    ("edit_format", "mark"),
    [("zeta-2", "<filename>"), ("sweep-8", "<|file_sep|>"), ("sweep-21", "<|file_sep|>")],
)
def test_definitions_in_other_files_are_in_the_prompt(make, tmp_path, edit_format, mark):
    models = "class Box:\n    def area_of_box(self):\n        return self.width\n"
    cart = "from models import Box\n\n\ndef total(boxes):\n    return Box(1).area_of_box()\n"
    write(tmp_path / "models.py", models)
    write(tmp_path / "marks.py", models + f"x = '{mark}'\n")
    remote = ReplayingRemote("zeta-2")
    remote.answer = "NO_EDITS"
    edited = make(remote, edit_format=edit_format, path="cart.py")
    edited.window.completer.open_folder(WorkspaceFolder(root=str(tmp_path), name="p"))
    edited.version = 1
    for shown in (False, True):
        edited.window.open_document(
            document_of(
                cart, uri=URI, path="cart.py", language_id="python", file=str(tmp_path / "cart.py")
            )
        )
        assert edited.window.completer.wait_idle(WAIT_S)
        edited.ask(len(cart) - 2, origin="program", settings={"n_context": -1 if shown else 0})
    without, prompt = (prompt.text for prompt, _ in remote.sent)
    assert f"{mark}models.py\nclass Box:\n" in prompt
    assert "marks.py" not in prompt, "the model could not tell it from the prompt"
    assert "models.py" not in without


def test_no_secret_reaches_the_prompt_and_none_is_edited(make):
    secret = "ghp_" + "aB3dE6gH9kLmN0pQ2rS5" + "tUvWxYz12345678x"
    text = f'{CODE}key = "{secret}"\nlast = 1\n'
    masked = text.replace(secret, PLACEHOLDER)
    remote = ReplayingRemote("zeta-2")
    remote.answer = masked.replace("last = 1", "last = 2") + ">>>>>>> UPDATED\n"
    edited = make(remote, edit_format="zeta-2")
    edited.become(CODE)
    edited.become(text)
    result = edited.ask(text.index("last"))
    # Behind the secret, the edit stands where the window's own text has it.
    assert edited_text(result, text) == text.replace("last = 1", "last = 2")
    remote.answer = masked.replace("key", "token") + ">>>>>>> UPDATED\n"
    assert edited.ask(text.index("last")).withheld == "secret"
    assert all(secret not in prompt.text for prompt, _ in remote.sent)


def test_deleted_lines_in_prompts_hold_no_secrets(make):
    """Secrets are typed, deleted, and never sent, in files of many languages."""
    for one in planted_secrets()[::7]:
        remote = ReplayingRemote("zeta-2")
        remote.answer = "NO_EDITS"
        edited = make(remote, edit_format="zeta-2", path=one.name)
        shown = CODE + "\n" + one.lines + "\n"
        for end in range(len(CODE), len(shown), 7):
            edited.become(shown[:end] + "\n")
        for text in (shown, CODE):
            edited.become(text)
            edited.ask(10)
        sent = "".join(prompt.text for prompt, _ in remote.sent)
        assert len(remote.sent) == 2 or not sent, one.kind
        assert not any(secret in sent for secret in one.secrets), one.kind


@pytest.fixture
def edited(make, remote):
    return make(remote, edit_format="zeta-2")


def test_what_was_declined_is_not_proposed_again_until_its_lines_change(remote, edited):
    edited.become(CODE)
    remote.answer = CODE.replace("= 0", "= 0.0") + ">>>>>>> UPDATED\n"
    first = edited.ask(0)
    assert first.hunks
    assert edited.window.next_edits.declined(first.completion_id)
    assert edited.ask(0).withheld == "declined"
    # The same lines of another document are another place.
    elsewhere = Document(
        uri="file:///b.py", path="b.py", language_id="python", version=1, text=CODE
    )
    edited.window.open_document(elsewhere)
    assert edited.answer(asking(0, uri=elsewhere.uri)).hunks
    other = CODE.replace("result = 0", "total = 0")
    edited.become(other)
    remote.answer = other.replace("= 0", "= 0.0") + ">>>>>>> UPDATED\n"
    assert edited.ask(0).hunks
    stats = edited.window.statistics().edits
    assert (stats.n_asked, stats.n_proposed, stats.n_shown, stats.n_declined) == (4, 3, 1, 1)
    assert stats.withheld == {"declined": 1}


@pytest.mark.parametrize("is_reported", [True, False])
def test_undoing_an_accepted_edit_declines_it(is_reported, remote, edited):
    """Whether the client reports it, or the text is as it was."""
    edited.become(CODE)
    new = CODE.replace("= 0", "= 0.0")
    remote.answer = new + ">>>>>>> UPDATED\n"
    proposed = edited.ask(0)
    edited.become(new)
    assert edited.window.next_edits.accepted(proposed.completion_id)
    edited.become(CODE)
    if is_reported:
        assert edited.window.next_edits.declined(proposed.completion_id)
    assert edited.ask(0).withheld == "declined"
    stats = edited.window.statistics().edits
    assert (stats.n_accepted, stats.n_declined, stats.n_shown) == (1, 1, 1)


def test_what_the_user_types_of_an_edit_is_not_asked_for_again(remote, edited):
    edited.become(CODE)
    new = CODE.replace("prices", "amounts")
    remote.answer = new + ">>>>>>> UPDATED\n"
    first = edited.ask(10)
    for typed in ("", "a", "amo"):
        text = CODE.replace("prices", typed, 1)
        edited.become(text)
        rest = edited.ask(10 + len(typed))
        assert rest.completion_id == first.completion_id
        assert edited_text(rest, text) == new
    assert len(remote.sent) == 1
    stats = edited.window.statistics().edits
    assert (stats.n_asked, stats.n_proposed, stats.n_kept) == (4, 1, 3)
    # Declined as it is now, and asked for anew after another key.
    assert edited.window.next_edits.declined(first.completion_id)
    assert edited.ask(13).withheld == "declined"
    edited.become(CODE.replace("prices", "amox", 1))
    assert edited.ask(14).completion_id != first.completion_id
    assert len(remote.sent) == 3


def test_an_edit_of_a_text_that_changed_meanwhile_is_kept_for_what_is_typed_of_it(remote, edited):
    edited.become(CODE)
    new = CODE + "    return result\n"
    remote.answer = new + ">>>>>>> UPDATED\n"
    edited.become(CODE + "    ret\n")
    late = edited.answer(asking(len(CODE) - 2, version=1))
    assert (late.hunks, late.withheld) == ((), "changed")
    rest = edited.ask(len(CODE) + 7)
    assert smallest_edit(rest.hunks, CODE + "    ret\n").text == "urn result"
    assert len(remote.sent) == 1
    stats = edited.window.statistics().edits
    assert (stats.n_proposed, stats.n_kept, stats.withheld) == (0, 1, {"changed": 1})


@pytest.mark.parametrize("kind", [LocalCompleter, AcrossSocket])
def test_what_was_accepted_is_marked_in_the_next_prompt(make, kind, remote):
    edited = make(remote, kind=kind, edit_format="zeta-2")
    edited.become(CODE)
    new = CODE + "    return result\n"
    remote.answer = new + ">>>>>>> UPDATED\n"
    proposed = edited.ask(len(CODE) - 2)
    edited.become(edited_text(proposed, CODE))
    assert edited.window.next_edits.accepted(proposed.completion_id)
    assert not edited.window.next_edits.accepted(proposed.completion_id)
    edited.ask(3)
    assert "// User accepted prediction:\n--- a/a.py" in remote.sent[1][0].text


def test_an_accepted_suggestion_is_marked_while_the_cursor_is_still_in_it(remote, edited):
    begun = CODE + "    return "
    edited.become(begun)
    remote.answer = "result"
    suggested = edited.complete(len(begun))
    assert suggested.generated.text == "result"
    edited.become(begun + suggested.generated.text)
    edited.window.accepted(suggested.generated.completion_id)
    edited.ask(len(begun) + 6)
    assert "// User accepted prediction:\n--- a/a.py" in remote.sent[-1][0].text


def test_the_trail_outlives_the_engine(make, remote):
    remote.answer = "NO_EDITS"
    edited = make(remote, kind=AcrossSocket, edit_format="zeta-2")
    edited.become(CODE.replace("prices", "numbers"))
    edited.become(CODE)
    completer = edited.window.completer
    completer.threaded.drop()

    def is_sent():
        with contextlib.suppress(EngineUnavailableError):
            edited.ask(0)
        return remote.sent

    until(is_sent)
    assert len(completer.threaded.sockets) == 2
    assert "-def total(numbers):\n" in remote.sent[-1][0].text


def test_changes_of_closed_documents_are_forgotten(make, remote):
    remote.answer = "NO_EDITS"
    edited = make(remote, edit_format="zeta-2")
    edited.become(CODE.replace("prices", "numbers"))
    edited.become(CODE)
    edited.window.close_document(URI)
    edited.version = 0
    edited.become(CODE)
    edited.ask(0)
    assert "edit_history" not in remote.sent[-1][0].text


def test_changes_of_other_folders_and_ignored_files_are_not_in_the_prompt(make, tmp_path):
    write(tmp_path / "one" / ".gitignore", "ignored.py\n")
    remote = ReplayingRemote("zeta-2")
    remote.answer = "NO_EDITS"
    edited = make(remote, edit_format="zeta-2")
    window = edited.window
    for name in ("one", "two"):
        write(tmp_path / name / "a.py", CODE)
        window.completer.open_folder(WorkspaceFolder(root=str(tmp_path / name), name=name))
    assert window.completer.wait_idle(WAIT_S)
    places = ("two/a.py", "elsewhere.py", "one/ignored.py", "one/other.py", "one/a.py")
    for place in places:
        file = tmp_path / place
        uri = file.as_uri()
        old = CODE.replace("prices", f"numbers_of_{place}")
        window.open_document(
            document_of(old, uri=uri, path=file.name, language_id="python", file=str(file))
        )
        window.change_document(uri, 2, CODE)
    edited.answer(asking(9, uri=(tmp_path / "one/a.py").as_uri(), version=2))
    (prompt, _params) = remote.sent[0]
    shown = [place for place in places if f"numbers_of_{place}" in prompt.text]
    assert shown == ["one/other.py", "one/a.py"]
    # Nor is an ignored file edited.
    ignored = asking(9, uri=(tmp_path / "one/ignored.py").as_uri(), version=2)
    assert edited.answer(ignored).is_empty
    assert len(remote.sent) == 1


def test_no_secret_in_a_files_name_reaches_the_prompt(make):
    secret = "ghp_" + "aB3dE6gH9kLmN0pQ2rS5" + "tUvWxYz12345678x"
    remote = ReplayingRemote("zeta-2")
    remote.answer = "NO_EDITS"
    edited = make(remote, edit_format="zeta-2", path=f"{secret}.py")
    edited.become(CODE.replace("prices", "numbers"))
    edited.become(CODE)
    edited.ask(0)
    assert "-def total(numbers):\n" in remote.sent[0][0].text
    assert secret not in remote.sent[0][0].text


def test_what_takes_back_a_change_that_the_prompt_has_no_room_for_is_withheld(make, remote):
    remote.model = replace(remote.model, n_ctx=400)
    edited = make(remote, edit_format="zeta-2")
    old = CODE.replace("prices", "numbers")
    edited.become(old)
    edited.become(CODE)
    edited.window.open_document(
        document_of("x\n", uri="file:///p/b.py", path="b.py", language_id="python")
    )
    edited.window.change_document("file:///p/b.py", 2, "y = 1\n" * 150)
    remote.answer = old + ">>>>>>> UPDATED\n"
    assert edited.ask(0).withheld == "undoes"
    assert "numbers" not in remote.sent[0][0].text


@pytest.mark.parametrize("where", ["old", "before"])
def test_a_mark_in_another_files_change_leaves_that_change_out(make, where, remote):
    """The file itself gets no next edit; the others do."""
    remote.answer = CODE.replace("result", "total") + ">>>>>>> UPDATED\n"
    edited = make(remote, edit_format="zeta-2")
    mark = "x = '<|user_cursor|>'\n"
    texts = [mark + "y = 1\n", ("" if where == "old" else mark) + "y = 2\n"]
    other = "file:///p/prompts.py"
    edited.window.open_document(
        document_of(texts[0], uri=other, path="prompts.py", language_id="python")
    )
    edited.window.change_document(other, 2, texts[1])
    edited.become(CODE.replace("prices", "numbers"))
    edited.become(CODE)
    assert edited.ask(CODE.index("result")).hunks
    assert "prompts.py" not in remote.sent[0][0].text
    assert "-def total(numbers):\n" in remote.sent[0][0].text


@pytest.mark.parametrize(
    ("text", "reason"), [("x = '<|user_cursor|>'\n", "refused"), ("", "unchanged")]
)
def test_texts_that_no_model_can_tell_from_its_prompt_get_no_edit(text, reason, remote, edited):
    edited.become(text)
    result = edited.ask(0)
    assert not result.hunks
    assert result.withheld == reason
    assert bool(remote.sent) == (reason == "unchanged")


def test_a_model_without_a_format_says_so_once(make):
    edited = make()
    edited.become(CODE)
    for _ in range(2):
        assert edited.ask(0).is_empty
    lines = [str(event) for event in edited.events()]
    assert sum("no next edits: the model is not known" in line for line in lines) == 1
    said = edited.window.statistics().next_edits
    assert said.startswith("none: the model is not known to propose them (embedded")


# By analogy, with a model that was not trained for next edits

CALLS = """def load(path, **options):
    return path


a = load("a.txt", mode="r")
b = load("b.txt", mode="r")
print(a)
    c = load("c.txt", mode="r")
"""


def renamed(text: str) -> str:
    """The first call with another argument's name."""
    return text.replace('load("a.txt", mode=', 'load("a.txt", how=')


class AnsweringRemote(ReplayingRemote):
    """Answers each place by what ``becomes`` makes of it."""

    becomes: Callable[[str], str]

    def __init__(self, model: str) -> None:
        super().__init__(model)
        self.probability = 0.9

    def answer_to(self, prompt: RemotePrompt) -> str:
        place, _, given = prompt.text.rpartition("--- before\n")[2].partition("+++ after\n")
        return self.becomes(place).removeprefix(given) + "--- before\n"


def by_analogy(
    make: Callable[..., Edited], text: str = CALLS, **fields: Any
) -> tuple[Edited, AnsweringRemote]:
    remote = AnsweringRemote("qwen2.5-coder-7b")
    remote.becomes = lambda place: place.replace("mode=", "how=")
    for name, value in fields.items():
        setattr(remote, name, value)
    edited = make(remote, edit_format="analogy")
    edited.become(text)
    edited.become(renamed(text))
    return edited, remote


def test_an_ordinary_model_makes_the_edit_again_at_near_places(make):
    edited, remote = by_analogy(make)
    text = renamed(CALLS)
    result = edited.ask(text.index("how=") + 4)
    assert edited_text(result, text) == CALLS.replace("mode=", "how=")
    assert [one.text for one in result.hunks] == [
        'b = load("b.txt", how="r")\n',
        '    c = load("c.txt", how="r")\n',
    ]
    assert edited.window.statistics().next_edits.startswith("format analogy, qwen2.5-coder-7b")
    first, second = (prompt.text for prompt, _ in remote.sent)
    # The engine has the beginning in its KV cache: only the place differs.
    assert first.replace('b = load("b.txt"', 'c = load("c.txt"') == second
    assert first == (
        'a.py\n--- before\na = load("a.txt", mode="r")\n+++ after\na = load("a.txt", how="r")\n'
        '--- before\nb = load("b.txt", mode="r")\n+++ after\nb = load("b.txt",'
    )


@pytest.mark.parametrize(
    ("passes", "changes", "said"),
    [
        ([], {}, ""),  # asking tells how long it takes
        ([(1, 0.010), (64, 0.280)], {}, ""),
        ([(1, 0.020)], {}, ""),  # what the other passes take is not known
        ([(1, 0.010), *[(64, 0.300)] * 5], {}, "by analogy a place would take more than 300 ms"),
        ([(1, 0.001)], {"is_trial": True}, "not known to propose them."),
        ([], {"engine": "llama-server at desk"}, "not known to propose them."),
    ],
    ids=["unknown", "quick", "single passes", "slow", "trial model", "elsewhere"],
)
def test_analogy_is_the_default_where_a_place_takes_no_longer_than_a_pause(passes, changes, said):
    loader, settings = ScriptedLoader(), Settings()
    tokenizer = loader.tokenizer(settings)
    weights = loader.weights(settings, tokenizer, lambda share: True, lambda level, line: None)
    weights.pass_cost.learn(passes)
    weights = replace(weights, **changes)
    if not said:
        assert edit_format(settings, "qwen2.5-coder-7b", tokenizer, weights).name == "analogy"
    else:
        with pytest.raises(SettingsError, match=re.escape(said)):
            edit_format(settings, "qwen2.5-coder-7b", tokenizer, weights)


def test_without_a_place_the_model_is_not_asked(make):
    remote = AnsweringRemote("qwen2.5-coder-7b")
    edited = make(remote, edit_format="analogy")
    edited.become(CALLS)
    text = CALLS.replace("print(a)", "print(b)")
    edited.become(text)
    result = edited.ask(text.index("print"))
    assert result.withheld == "no-place"
    assert not remote.sent


@pytest.mark.parametrize(
    ("fields", "reason", "n_asked"),
    [
        ({"becomes": lambda place: place}, "kept", 2),
        ({"becomes": lambda place: place, "probability": 0.65}, "", 2),
        ({"becomes": lambda place: place, "probability": 0.75}, "kept", 2),
        ({"becomes": lambda place: place, "probability": None}, "kept", 2),
        ({"probability": 0.3}, "", 2),
        ({"becomes": lambda place: place.replace("mode", "other")}, "kept", 2),
        ({"becomes": lambda _: "\n"}, "kept", 2),
        ({"probability": None}, "", 2),
    ],
)
def test_what_an_analogy_withholds(make, fields, reason, n_asked):
    """Another answer withholds it unless the model is unsure of that, where the server tells."""
    edited, remote = by_analogy(make, **fields)
    result = edited.ask(renamed(CALLS).index("how="))
    assert (result.withheld, not result.hunks) == (reason, bool(reason))
    assert len(remote.sent) == n_asked


def test_a_declined_place_is_not_offered_again(make):
    edited, _ = by_analogy(make)
    cursor = renamed(CALLS).index("how=")
    edited.window.next_edits.declined(edited.ask(cursor).completion_id)
    assert edited.ask(cursor).withheld == "declined"


@pytest.mark.parametrize("is_undone", [False, True])
@pytest.mark.parametrize(("probability", "is_shown"), [(0.7, False), (0.95, True)])
def test_a_declined_kind_is_offered_less_readily(make, probability, is_shown, is_undone):
    far = 'd = load("d.txt", mode="r")\n'
    text = CALLS + "print(b)\n" * 10 + far
    edited, _ = by_analogy(make, text, probability=probability)
    cursor = renamed(text).index("how=")
    near = edited.ask(cursor)
    assert len(near.hunks) == 2
    assert near.hunks
    if is_undone:
        edited.become(edited_text(near, renamed(text)))
        edited.become(renamed(text))
    else:
        edited.window.next_edits.declined(near.completion_id)
    assert [one.text for one in edited.ask(cursor).hunks] == (
        [far.replace("mode", "how")] if is_shown else []
    )


OTHER = "file:///p/b.py"
DECLARED = "def load(path):\n    return path\n"
USES = "from a import load\n\nprint(load(1))\n" + "x = 1\n" * 30 + "load(2)\n"


class OtherFiles:
    """A function is renamed in one document, and another one uses it."""

    def __init__(self, make: Callable[..., Edited]) -> None:
        self.edited, self.remote = by_analogy(
            make, DECLARED, becomes=lambda place: place.replace("load", "read")
        )
        self.uses, self.version = "", 0
        self.renamed = DECLARED.replace("load", "read")
        self.use(USES)

    def use(self, text: str) -> None:
        self.uses, self.version = text, self.version + 1
        if self.version > 1:
            self.edited.window.change_document(OTHER, self.version, text)
            return
        self.edited.window.open_document(
            document_of(text, uri=OTHER, path="b.py", language_id="python")
        )

    def rename(self) -> None:
        self.edited.become(self.renamed)

    def ask(self, uri: str = URI, others: Sequence[str] = (URI, OTHER)) -> EditResult:
        version = self.edited.version if uri == URI else self.version
        request = asking(0, uri=uri, version=version)
        next_edits = self.edited.window.next_edits
        return asyncio.run(next_edits.next_edit(request, CancellationToken(), lambda: others))

    def text(self, result: EditResult) -> str:
        assert result.elsewhere == (OTHER, self.version)
        return edited_text(result, self.uses)


def test_a_renamed_function_is_renamed_in_another_file_use_by_use(make):
    files = OtherFiles(make)
    files.rename()
    first = files.ask()
    assert first.is_far
    assert files.text(first) == USES.replace("load", "read", 2)
    files.use(files.text(first))  # as the client applies it, and the change tells
    # What is farther off in that file comes next.
    second = files.ask(OTHER)
    assert files.text(second) == USES.replace("load", "read")
    assert second.is_far
    assert files.edited.window.next_edits.accepted(second.completion_id)
    files.use(files.text(second))
    assert files.ask(OTHER).withheld == "no-place"
    stats = files.edited.window.statistics().edits
    assert (stats.n_asked, stats.n_proposed, stats.n_accepted) == (3, 2, 2)
    assert stats.withheld == {"no-place": 1}
    # The prompt shows the declaration, whichever use was renamed last.
    assert all("before\ndef load(path):\n" in prompt.text for prompt, _ in files.remote.sent)


def test_a_use_that_the_model_keeps_in_one_file_does_not_hide_the_next(make):
    files = OtherFiles(make)
    files.rename()
    files.remote.becomes = lambda place: place.replace("import load", "import read")
    first = files.ask()
    assert files.text(first) == USES.replace("import load", "import read")
    third = "file:///p/c.py"
    files.edited.window.open_document(
        document_of("from a import load\n", uri=third, path="c.py", language_id="python")
    )
    files.use(files.text(first))
    result = files.ask(OTHER, others=(URI, third))
    assert result.elsewhere == (third, 1)


@pytest.mark.parametrize("others", [(), (URI,), ("file:///p/c.py",)])
def test_no_file_is_gone_to_that_the_client_does_not_name(others, make):
    files = OtherFiles(make)
    files.rename()
    assert files.ask(others=others).withheld == "no-place"
    assert not files.remote.sent


def test_no_name_is_renamed_in_prose(make):
    files = OtherFiles(make)
    readme = "file:///p/README.md"
    files.edited.window.open_document(
        document_of("The load of it.\n", uri=readme, path="README.md", language_id="markdown")
    )
    files.rename()
    assert files.ask(others=(readme,)).withheld == "no-place"
    assert not files.remote.sent


def test_other_files_wait_until_the_renamed_functions_own_has_no_more_uses(make):
    files = OtherFiles(make)
    files.renamed += "x = 1\n" * 30 + "load(3)\n"
    files.rename()
    assert files.ask().withheld == "no-place"
    assert not files.remote.sent


def test_other_files_wait_until_all_cells_of_the_renamed_functions_notebook_have_no_more_uses(make):
    files = OtherFiles(make)
    window, cell = files.edited.window, "notebook:/p/a.ipynb#2"
    window.open_document(
        document_of("load(3)\n", uri=cell, path=files.edited.path, language_id="python")
    )
    files.rename()
    assert files.ask().withheld == "no-place"
    assert not files.remote.sent
    window.change_document(cell, 2, "read(3)\n")
    assert files.ask().hunks


def test_what_is_not_renamed_where_it_is_declared_asks_about_no_other_file(make):
    edited, remote = by_analogy(make, "load(1)\n")
    edited.become("read(1)\n")
    edited.window.open_document(document_of(USES, uri=OTHER, path="b.py", language_id="python"))
    request = asking(0, version=edited.version)
    next_edits = edited.window.next_edits
    result = asyncio.run(next_edits.next_edit(request, CancellationToken(), lambda: [OTHER]))
    assert result.withheld == "no-place"
    assert not remote.sent


def test_a_use_elsewhere_that_the_model_keeps_is_not_shown(make):
    files = OtherFiles(make)
    files.remote.becomes = lambda place: place
    files.rename()
    third = "file:///p/c.py"
    files.edited.window.open_document(
        document_of("load(3)\n", uri=third, path="c.py", language_id="python")
    )
    assert files.ask(others=(OTHER, third)).withheld == "no-place"
    ((prompt, _),) = files.remote.sent  # of the file that was opened last
    assert "before\nload(3)\n" in prompt.text
    assert files.edited.window.statistics().edits.totals.n_predicted


def test_a_renaming_that_was_declined_elsewhere_comes_in_no_other_file(make):
    files = OtherFiles(make)
    files.rename()
    shown = files.ask()
    n_asked = len(files.remote.sent)
    files.edited.window.next_edits.declined(shown.completion_id)
    third = "file:///p/c.py"
    files.edited.window.open_document(
        document_of("load(3)\n", uri=third, path="c.py", language_id="python")
    )
    assert files.ask(others=(OTHER, third)).is_empty
    assert len(files.remote.sent) == n_asked
    stats = files.edited.window.statistics().edits
    assert (stats.n_shown, stats.n_declined) == (1, 1)


def test_undoing_it_in_the_other_file_declines_it(make):
    files = OtherFiles(make)
    files.rename()
    shown = files.ask()
    files.use(files.text(shown))
    files.use(USES)
    stats = files.edited.window.statistics().edits
    assert (stats.n_accepted, stats.n_declined) == (1, 1)


@pytest.mark.parametrize("where", ["here", "there", "closed there"])
def test_an_edit_elsewhere_needs_both_documents_as_they_were(where, make):
    files = OtherFiles(make)
    files.rename()
    answer = files.remote.answer_to

    def changing(prompt: RemotePrompt) -> str:
        if where == "here":
            files.edited.become(files.renamed + "\n")
        elif where == "there":
            files.use(USES + "\n")
        else:
            files.edited.window.close_document(OTHER)
        return answer(prompt)

    files.remote.answer_to = changing  # type: ignore[method-assign]
    assert files.ask().is_empty


def test_an_ignored_file_is_passed_over(make, tmp_path):
    write(tmp_path / ".gitignore", "ignored.py\n")
    files = OtherFiles(make)
    window = files.edited.window
    window.completer.open_folder(WorkspaceFolder(root=str(tmp_path), name="one"))
    assert window.completer.wait_idle(WAIT_S)
    for name in ("a.py", "b.py", "ignored.py"):
        file = tmp_path / name
        text = DECLARED if name == "a.py" else USES
        window.open_document(
            document_of(text, uri=file.as_uri(), path=name, language_id="python", file=str(file))
        )
    home, *uris = [(tmp_path / name).as_uri() for name in ("a.py", "b.py", "ignored.py")]
    window.change_document(home, 2, files.renamed)
    request = asking(0, uri=home, version=2)
    found = window.next_edits.next_edit(request, CancellationToken(), lambda: uris)
    assert asyncio.run(found).elsewhere == (uris[0], 1)


def test_no_secret_is_edited_elsewhere_and_no_private_file(make):
    (secret,) = planted_secrets()[0].secrets[:1]
    for path, uses in (("b.py", f"load(api_key='{secret}')\n"), (".env", "A=load\n")):
        files = OtherFiles(make)
        files.edited.window.close_document(OTHER)
        files.edited.window.open_document(
            document_of(uses, uri=OTHER, path=path, language_id="python")
        )
        files.rename()
        assert files.ask().is_empty
        assert secret not in "".join(prompt.text for prompt, _ in files.remote.sent)


@pytest.mark.parametrize(
    ("kind", "can"), [("openai", True), ("mistral", False), ("deepseek", False)]
)
def test_an_api_of_prefix_and_suffix_says_so_once(make, kind, can, remote):
    """Codestral and DeepSeek take no other prompt; an OpenAI-compatible server takes any text."""
    remote.model = RemoteModel(kind=kind, name="zeta-2", n_ctx=4096, takes_text=can)
    remote.answer = CODE.replace("result", "total") + ">>>>>>> UPDATED\n"
    edited = make(remote)
    edited.become(CODE)
    assert [edited.ask(0).is_empty for _ in range(2)] == [not can] * 2
    reason = f"no next edits: {kind}'s API takes no prompts but prefix and suffix."
    told = [getattr(event, "message", "") for event in edited.events()]
    assert sum(reason in line for line in told) == (not can)
    assert edited.window.statistics().next_edits.startswith("format zeta-2" if can else "none: ")
    assert bool(remote.sent) == can


def test_a_server_that_splits_the_formats_tokens_gets_no_prompt(make, remote):
    remote.vocabulary = {"<[fim-suffix]>": [1, 2, 3]}
    edited = make(remote)
    edited.become(CODE)
    assert edited.ask(0).is_empty
    assert remote.sent == []


def test_each_departure_from_the_copy_has_a_probability(make):
    remote = ScriptedRemote(
        model=RemoteModel(kind="llama-server", name="zeta-2", takes_text=True, logprobs=True)
    )
    # The first line stays, "result" becomes "total" in the second one, the fourth one goes.
    texts = ["def total(prices):\n", "    ", "total", " = 0\n", "    for price in prices:\n"]
    probabilities = [0.9, 0.8, 0.5, 0.95, 0.7]
    remote.pieces = [
        Piece(text, (), (math.log(p),)) for text, p in zip(texts, probabilities, strict=True)
    ]
    remote.pieces.append(Piece(">>>>>>> UPDATED\n", (), (math.log(0.25),)))
    edited = make(remote)
    edited.become(CODE)
    result = edited.ask(0)
    assert [(one.line, round(one.probability, 3)) for one in result.divergences] == [
        ("    total = 0", 0.5),
        ("", 0.25),
    ]
    assert result.probability == result.divergences[0].probability
    assert result.withheld == ""
    assert remote.sent[0][1].wants_logprobs


def test_an_answer_that_the_server_ends_is_whole(make):
    """Servers that treat the end mark as the end of the text do not send it."""
    remote = ReplayingRemote("sweep-next-edit-1.5b")
    remote.answer = CODE.replace("result", "total")
    edited = make(remote)
    edited.become(CODE)
    result = edited.ask(0)
    assert edited_text(result, CODE) == remote.answer


# One answer each


async def begun(edited: Edited, remote: ScriptedRemote, cancel: CancellationToken) -> Any:
    """Ask, and return the task once the engine answers."""
    request = asking(0, version=edited.version)
    task = asyncio.create_task(edited.window.next_edits.next_edit(request, cancel))
    end = time.monotonic() + WAIT_S
    while not remote.n_given:
        assert time.monotonic() < end
        await asyncio.sleep(0.005)
    return task


@pytest.mark.parametrize("kind", [LocalCompleter, AcrossSocket])
@pytest.mark.parametrize("how", ["cancel", "supersede", "close", "kill"])
def test_a_request_that_cannot_be_answered_ends_once(make, kind, how):
    if how == "kill" and kind is LocalCompleter:
        pytest.skip("the engine is in the window's process")
    remote = ScriptedRemote(
        model=RemoteModel(kind="llama-server", name="zeta-2", n_ctx=4096, takes_text=True)
    )
    remote.pieces = [Piece("def "), Piece("total(prices):\n"), Piece(">>>>>>> UPDATED\n")]
    remote.go_on.clear()
    edited = make(remote, kind=kind)
    edited.become(CODE)

    async def ended():
        cancel = CancellationToken()
        task = await begun(edited, remote, cancel)
        later = None
        if how == "cancel":
            cancel.cancel(for_good=True)
        elif how == "supersede":
            later = asyncio.create_task(
                edited.window.next_edits.next_edit(asking(5), CancellationToken())
            )
        elif how == "close":
            edited.window.close_document(URI)
            remote.go_on.set()
        else:
            edited.window.completer.threaded.drop()
        async with asyncio.timeout(WAIT_S):
            result: EditResult = await task
            remote.go_on.set()
            if later is not None:
                assert (await later).finish_reason == "stop"
        return result

    result = asyncio.run(ended())
    assert not result.hunks
    assert result.finish_reason == ("stop" if how == "close" else "cancelled")
    stats = edited.window.statistics().edits
    assert stats.n_asked == 1 + (how == "supersede")


# The embedded model


OTHER_DRAFTERS = (
    "region",
    "suffix",
    "prompt-lookup",
    "ngram-simple",
    "ngram-map-k",
    "ngram-map-k4v",
    "ngram-mod",
    "ngram-cache",
)


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8, "seed": 7}])
@pytest.mark.slow
@pytest.mark.parametrize("drafters", OTHER_DRAFTERS)
def test_no_drafter_changes_the_answer(make, drafters, sampling, monkeypatch):
    monkeypatch.setattr(loaded_models, "EDIT_DRAFTERS", drafters)
    answers, n_passes = with_and_without_drafts(make, "sweep-8", sampling)
    assert answers[0] == answers[1]
    assert n_passes[0] < n_passes[1] or drafters == "ngram-mod"  # whose matches are longer


@pytest.mark.slow
@pytest.mark.parametrize("sampling", [{}, {"temperature": 0.8, "seed": 7}])
@pytest.mark.parametrize("edit_format", ["sweep-8", "sweep-21", "zeta-1", "analogy"])
def test_drafts_do_not_change_the_answer(make, edit_format, sampling):
    answers, n_passes = with_and_without_drafts(make, edit_format, sampling)
    assert answers[0] == answers[1]
    assert len(answers[0]) == 3
    # By analogy the first wrong token ends an answer, and that is this model's first one.
    assert n_passes[0] < n_passes[1] or (edit_format == "analogy" and n_passes[0] == n_passes[1])


def with_and_without_drafts(
    make: Callable[..., Edited], edit_format: str, sampling: dict[str, Any]
) -> tuple[list[list[list[int]]], list[int]]:
    """The tokens of three answers, and the passes over all of them, with drafts and without."""
    answers: list[list[list[int]]] = []
    n_passes: list[int] = []
    for speculation in (True, False):
        edited = make(
            edit_format=edit_format, speculation=speculation, mode="tree", threads=1, **sampling
        )
        edited.become(CODE)
        edited.become(CODE.replace("prices", "numbers", 1))
        results = [edited.ask(offset) for offset in (10, 30, 60)]
        assert all(result.finish_reason in ("stop", "length") for result in results)
        (generated,) = edited.window.completer._engine.models._target.generated.values()
        answers.append([tokens.tolist()[16:] for tokens in generated])
        n_passes.append(sum(result.stats.n_target_passes for result in results))
    return answers, n_passes


def counts_of_both_kinds(edited: Edited) -> list[tuple[int, int]]:
    """(evaluated, all) prompt tokens of a completion and an edit in turn, a key between them."""
    text = "".join(f"def value_{n}(a):\n    return a + {n}\n\n" for n in range(40))
    cursor = text.index("return a + 38")
    counts: list[tuple[int, int]] = []
    for key in "xyz":
        edited.become(text)
        counts += [
            (result.stats.n_prompt_evaluated, result.stats.n_prompt)
            for result in (edited.complete(cursor), edited.ask(cursor))
        ]
        text = text[:cursor] + key + text[cursor:]
        cursor += 1
    return counts


@pytest.mark.parametrize("settings", [{}, {"edit_model": str(embedded_draft()), "cache_ram": 0}])
def test_no_kind_of_request_costs_the_other_its_cache(make, settings):
    """By saved states of one context, and without them by two contexts."""
    counts = counts_of_both_kinds(make(edit_format="sweep-8", mode="tree", **settings))
    first_completion, first_edit, *later = counts
    assert first_completion[0] == first_completion[1] > 500
    assert first_edit[0] == first_edit[1] > 600
    assert all(n_evaluated <= 8 for n_evaluated, _ in later[::2])
    # The file from the changed line on, the changes and the block.
    assert all(n_evaluated < 300 for n_evaluated, _ in later[1::2])


def test_next_edits_by_analogy_cost_completions_no_token(make):
    """The prompts of completions are the same with and without them, evaluated ones too."""
    text = "".join(f"def value_{n}(amount):\n    return amount + {n}\n\n" for n in range(40))
    counts: list[list[tuple[int, int]]] = []
    for asks in (False, True):
        edited = make(edit_format="analogy", mode="tree")
        edited.become(text)
        now, n_passes = text, 0
        counts.append([])
        for name in ("sums", "total", "price"):
            now = re.sub(r"return \w+ \+ 38", f"return {name} + 38", now)
            edited.become(now)
            cursor = now.index(f"{name} + 38") + len(name)
            stats = edited.complete(cursor, "automatic").stats
            counts[-1].append((stats.n_prompt_evaluated, stats.n_prompt))
            n_passes += edited.ask(cursor).stats.n_target_passes if asks else 0
        assert bool(n_passes) == asks
    assert counts[0] == counts[1]
    assert counts[0][0][0] > counts[0][1][0] > 0


def test_without_saved_states_one_context_holds_one_kind(make):
    counts = counts_of_both_kinds(make(edit_format="sweep-8", mode="tree", cache_ram=0))
    assert all(n_evaluated == n_all for n_evaluated, n_all in counts)


def test_the_embedded_model_follows_a_name_through_its_uses(make):
    """What the model itself says, by real passes over its own prompts."""
    edited = make(edit_model="embedded")
    edited.become(CART)
    text = CART.replace("items", "entries", 1)
    edited.become(text)
    cursor = text.index("entries") + len("entries")
    for n_left in (3, 2, 1):
        assert text.count("self.items") == n_left
        hunk = edited.ask(cursor).hunks[0]
        text, cursor = hunk.applied_to(text), hunk.start + len(hunk.text)
        edited.become(text)
    assert text == CART.replace("items", "entries")
    assert edited.ask(cursor).withheld == "unchanged"
    stats = edited.window.statistics()
    assert stats.next_edits.startswith("format sweep-21, embedded-edit-q8_0.gguf")
    assert stats.model.startswith("embedded-target")


def test_the_target_proposes_edits_where_their_model_cannot_be_loaded(make, tmp_path):
    edited = make(edit_format="sweep-8", mode="tree", edit_model=str(tmp_path / "none.gguf"))
    edited.become(CODE)
    assert edited.ask(30).stats.n_predicted
    (problem,) = [event for event in edited.events() if isinstance(event, Problem)]
    assert problem.message.startswith("next edits: ")
    assert "none.gguf" in problem.message


def test_a_model_for_next_edits_runs_beside_a_remote_engine(make):
    remote = ScriptedRemote(model=RemoteModel(kind="ollama", name="qwen2.5-coder:7b"))
    local = make(
        remote, edit_format="sweep-8", edit_model=str(embedded_draft()), local=LlamaLoader(print)
    )
    local.become(CODE)
    result = local.ask(30)
    assert result.stats.n_target_passes > 0
    assert remote.sent == []
