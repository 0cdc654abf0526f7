"""What is learned counts once, in a statistics file or for its workspace, and is not lost."""

import os
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from llama_cpp_statistics import saved
from scripted_models import ByteVocabulary, ScriptedLoader
from typed_requests import document_of, request_between, result_of
from waiting import until

from speclsp.backends.weights import Tokenizer
from speclsp.completer import learned_files
from speclsp.completer.learned_files import LearnedFiles, LearnInto
from speclsp.completer.local import LocalCompleter
from speclsp.drafting.drafter import sum_of
from speclsp.errors import ModelNotFoundError, StoreError
from speclsp.ngrams import files, journal
from speclsp.ngrams.files import open_statistics
from speclsp.ngrams.learned_file import LearnedFile
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionResult, GeneratedText
from speclsp.seam.documents import AcceptedText, TextEdit
from speclsp.seam.events import EventQueue, LogLine, Problem
from speclsp.secrets.pieces import Pieces
from speclsp.settings import Settings
from speclsp.storage.accepted_store import AcceptedStore
from speclsp.storage.database import BusyError

WAIT_S = 60
Options = dict[str, Any]


class GatedLoader(ScriptedLoader):
    """A loader whose vocabulary can be held up."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.may_read = threading.Event()
        self.may_read.set()

    def tokenizer(self, settings: Settings) -> Tokenizer:
        assert self.may_read.wait(WAIT_S)
        return super().tokenizer(settings)


class Session:
    """A completer with an engine of its own."""

    def __init__(self, text: str = "return 1", *, is_held: bool = False, **options: Any) -> None:
        self.loader = GatedLoader(text)
        self.settings = Settings(**options)
        if is_held:
            self.loader.may_read.clear()
        self.completer = LocalCompleter(self.settings, loader=self.loader)
        self.completer.start()
        if not is_held:
            until(lambda: self.completer.state() == "ready")

    def accept(self, before: str, text: str, file: str = "/r/a.py") -> None:
        self.completer.learn(AcceptedText(path="a.py", file=file, before=before, text=text))
        assert self.completer._accepted.wait_done(WAIT_S)

    def ask(self, text: str) -> str:
        document = document_of(text, uri="u", file="/r/a.py")
        self.completer.open_document(document)
        request = request_between(text, uri="u").plain
        answer = self.completer.submit(request, CancellationToken()).result(WAIT_S).generated.text
        self.completer.close_document("u")
        assert self.completer.wait_idle(WAIT_S)
        return answer

    def use_file(self) -> None:
        """Wait until the statistics files are read."""
        until(lambda: self.completer._statistics.current().learned_ids)

    def count(self, ngram: str, file: str = "/r/a.py") -> dict[str, int]:
        """What drafts are made from."""
        if self.settings.lookup_cache_dynamic:
            self.use_file()
        request = request_between("", uri="u", file=file)
        self.completer.sources(request)
        assert self.completer.wait_idle(WAIT_S)
        found = sum_of(self.completer.sources(request).statistics.dynamic, tuple(ngram.encode()))
        return {chr(token): count for token, count in found.items()}

    def heard(self) -> list[Problem | LogLine]:
        events = []
        while (event := self.completer.next_event(0.0)) is not None:
            if isinstance(event, (Problem, LogLine)):
                events.append(event)
        return events

    def next_problem(self) -> Problem:
        while not isinstance(event := self.completer.next_event(WAIT_S), Problem):
            assert event is not None
        return event

    def problems(self) -> list[str]:
        return [event.message for event in self.heard() if isinstance(event, Problem)]


@pytest.fixture
def begin():
    begun: list[Session] = []

    def begin_session(*arguments, **options):
        begun.append(Session(*arguments, **options))
        return begun[-1]

    yield begin_session
    for session in begun:
        session.loader.may_read.set()
        session.completer.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mine.ngrams"


def in_file(path: Path, ngram: str) -> dict[str, int]:
    found = open_statistics(path, None).tables.followers(tuple(ngram.encode()))
    return {chr(token): count for token, count in found.items()}


def options_of(sources: str, path: Path) -> Options:
    return {
        "persist": sources in ("store", "both"),
        "lookup_cache_dynamic": [str(path)] if sources in ("file", "both") else [],
    }


@pytest.mark.parametrize("then", ["store", "file", "both"])
@pytest.mark.parametrize("first", ["store", "file", "both"])
def test_an_accepted_text_counts_once_wherever_it_comes_from(begin, path, first, then):
    session = begin(**options_of(first, path))
    session.accept("x", "ab")
    session.accept("x", "ab")
    assert session.count("a") == {"b": 2}
    session.completer.close()
    later = begin(**options_of(then, path))
    is_there = "both" in (first, then) or first == then
    assert later.count("a") == ({"b": 2} if is_there else {})
    later.accept("x", "ac")
    assert later.count("a") == ({"b": 2, "c": 1} if is_there else {"c": 1})
    later.completer.close()
    both = begin(**options_of("both", path))
    assert both.count("a") == {"b": 2, "c": 1}
    assert session.problems() == later.problems() == both.problems() == []


def test_texts_of_a_file_count_in_all_folders_and_others_in_their_own(begin, path):
    plain = begin(persist=True)
    plain.accept("", "ab", file="/one/a.py")
    plain.completer.close()
    session = begin(**options_of("both", path))
    session.accept("", "ac", file="/one/a.py")
    # Files outside all workspace folders share one workspace.
    assert session.count("a", file="/two/a.py") == {"b": 1, "c": 1}


def test_a_missing_file_is_created_at_once(begin, path):
    session = begin(persist=False, lookup_cache_dynamic=[str(path)])
    session.use_file()
    assert in_file(path, "a") == {}
    assert any("was created" in line.message for line in session.heard())


def test_files_of_others_are_written_only_if_the_settings_say_so(begin, path):
    foreign = saved({(97,): {98: 4}})
    path.write_bytes(foreign)
    reading = begin(persist=False, lookup_cache_dynamic=[str(path)])
    reading.accept("", "ac")
    assert reading.count("a") == {"b": 4, "c": 1}
    reading.completer.close()
    assert path.read_bytes() == foreign
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    writing = begin(persist=False, lookup_cache_dynamic=[str(path)], lookup_cache_update="accepted")
    writing.accept("", "ac")
    assert writing.count("a") == {"b": 4, "c": 1}
    writing.completer.close()
    assert in_file(path, "a") == {"b": 4, "c": 1}


def test_off_neither_creates_nor_writes(begin, path):
    options: Options = {"persist": False, "lookup_cache_dynamic": [str(path)]}
    session = begin(**options, lookup_cache_update="off")
    problem = session.next_problem()
    assert str(path) in problem.message
    assert "command line" in problem.remedy
    session.completer.close()
    assert not path.exists()
    begin(**options).completer.close()
    until(path.exists)
    written = path.read_bytes()
    session = begin(**options, lookup_cache_update="off")
    session.accept("", "ab")
    assert session.count("a") == {"b": 1}
    session.completer.close()
    assert path.read_bytes() == written


def test_the_file_that_speclsp_created_is_the_one_that_learns(begin, tmp_path):
    team, mine, other = (tmp_path / name for name in ("team.bin", "mine", "other"))
    team.write_bytes(saved({(97,): {98: 4}}))
    files = [str(team), str(mine), str(other)]
    session = begin(persist=False, lookup_cache_dynamic=files, lookup_cache_update="accepted")
    session.accept("", "ac")
    assert session.count("a") == {"b": 4, "c": 1}
    session.completer.close()
    assert in_file(mine, "a") == {"c": 1}
    assert not other.exists()
    (problem,) = session.problems()
    assert str(other) in problem


def test_what_the_model_wrote_counts_without_being_accepted(begin, path):
    options: Options = {
        "persist": True, "lookup_cache_dynamic": [str(path)], "lookup_cache_update": "generated",
        "idle_work": "never", "min_probability": 0.0,
    }  # fmt: skip
    session = begin("abc", **options)
    session.use_file()
    assert session.ask("x = ") == "abc"
    assert session.count("ab") == {"c": 1}
    assert session.count("= ") == {"a": 1}
    session.accept("x = ", "abc")
    assert session.count("ab") == {"c": 1}  # it was counted when it was written
    session.completer.close()
    assert in_file(path, "ab") == {"c": 1}
    later = begin("abc", **options)
    assert later.count("ab") == {"c": 1}


def test_further_texts_that_the_model_wrote_count(begin, path):
    session = begin(
        persist=False, lookup_cache_dynamic=[str(path)], lookup_cache_update="generated"
    )
    session.use_file()
    answered: Future[CompletionResult] = Future()
    other = GeneratedText(completion_id="2", text="ac")
    answered.set_result(result_of("ab", alternatives=(other,)))
    into = learned_files.learn_into(session.settings)
    assert into.paths
    request = request_between("x = ", uri="u")
    session.completer._learn_generated(request, into, answered)
    assert session.count("a") == {"b": 1, "c": 1}


def test_a_generated_text_with_a_secret_is_not_learned(begin, path):
    secret = '"q8Zt5vLw2Xy9Rb4K"'
    session = begin(
        secret, persist=False, lookup_cache_dynamic=[str(path)], lookup_cache_update="generated"
    )
    session.use_file()
    session.ask("password = ")
    assert session.count("8Z") == {}


@pytest.mark.parametrize("sources", ["store", "file", "both"])
def test_what_is_accepted_before_there_is_a_vocabulary_counts_once(begin, path, sources):
    session = begin(is_held=True, **options_of(sources, path))
    session.accept("x", "ab")
    session.loader.may_read.set()
    until(lambda: session.completer.state() == "ready")
    assert session.count("a") == {"b": 1}
    accepted = session.completer.sources(request_between("", uri="u", file="/r/a.py")).accepted
    assert [bytes(tokens.tolist()) for tokens in accepted] == [b"xab"]
    session.completer.close()
    assert begin(**options_of(sources, path)).count("a") == {"b": 1}
    if sources != "store":
        assert in_file(path, "a") == {"b": 1}


SECRET = "Kq83mZvR9wL2x"


def forget_secret(session: Session) -> None:
    session.completer.open_document(document_of(f'x = "{SECRET}"\n', uri="s"))
    masked, edit = document_of("p = MASKED\n", uri="s", version=2), TextEdit(0, 19, "p = MASKED\n")
    session.completer.change_document(masked, edit, ((5, 5 + len(SECRET)),))
    assert session.completer._accepted.wait_done(WAIT_S)


def test_what_became_a_secret_before_there_is_a_vocabulary_is_taken_out_then(begin, path):
    first = begin(lookup_cache_dynamic=[str(path)])
    first.accept("", f"join({SECRET}, other)")
    first.completer.close()
    assert in_file(path, SECRET[2])
    then = begin(is_held=True, lookup_cache_dynamic=[str(path)])
    forget_secret(then)
    then.loader.may_read.set()
    until(lambda: then.completer.state() == "ready")
    assert then.count(SECRET[2]) == {}
    assert then.count("o") == {"i": 1, "t": 1}
    assert in_file(path, SECRET[2]) == {}
    then.completer.close()
    assert then.problems() == []


def test_without_a_vocabulary_the_user_is_told_which_file_holds_a_secret(begin, path, monkeypatch):
    first = begin(lookup_cache_dynamic=[str(path)])
    first.accept("", f"join({SECRET}, other)")
    first.completer.close()
    missing = ModelNotFoundError("the model file is missing.", remedy="Look for it.")
    monkeypatch.setattr(GatedLoader, "tokenizer", Mock(side_effect=missing))
    never = begin(is_held=True, lookup_cache_dynamic=[str(path)])
    forget_secret(never)
    never.completer.close()
    assert [problem for problem in never.problems() if "a secret" in problem] == [
        f"{path} may still hold n-grams of what became a secret."
    ]


def test_what_became_a_secret_is_taken_out_once_the_file_can_be_written(begin, path, monkeypatch):
    session = begin(lookup_cache_dynamic=[str(path)])
    session.use_file()
    session.accept("", f"join({SECRET}, other)")
    with monkeypatch.context() as broken:
        broken.setattr(files, "write", Mock(side_effect=StoreError("the disk is full.")))
        forget_secret(session)
    session.completer.close()
    assert in_file(path, SECRET[2]) == {}
    assert in_file(path, "o") == {"i": 1, "t": 1}
    assert session.problems() == ["the disk is full."]


def test_what_became_a_secret_is_taken_out_once_the_file_can_be_read(begin, path):
    session = begin(lookup_cache_dynamic=[str(path)])
    session.use_file()
    session.accept("", f"join({SECRET}, other)")
    session.completer._accepted.update_files()
    assert session.completer._accepted.wait_done(WAIT_S)
    session.completer.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    later = begin(lookup_cache_dynamic=[str(path)])
    forget_secret(later)
    path.write_bytes(whole)
    later.completer.close()
    assert in_file(path, SECRET[2]) == {}
    assert in_file(path, "o") == {"i": 1, "t": 1}
    assert not any("a secret" in problem for problem in later.problems())


@pytest.fixture
def events():
    return EventQueue()


@pytest.fixture
def learning(events, path):
    """A file that learned a secret, and the files of which it is one."""
    made = LearnedFiles(events, targets=lambda: [LearnInto((path,))])
    begun = made.begin(LearnInto((path,)), ByteVocabulary())
    assert begun is not None
    tokens = ByteVocabulary().tokenize(f"join({SECRET}, other)")
    assert made.add(begun[0], tokens, 0, begun[1])
    made.fold_all()
    assert in_file(path, SECRET[2])
    return made


def test_no_file_is_created_to_take_secrets_out(learning, path):
    path.unlink()
    learning.begin_to_forget(Pieces([SECRET]))
    learning.forget(ByteVocabulary())
    assert not path.exists()
    assert not learning.has_secret


def test_secrets_are_taken_out_whatever_their_number_and_length(learning, path):
    for secret in ("x" * 100_001, SECRET):
        learning.begin_to_forget(Pieces([secret]))
    for _ in range(2):
        learning.forget(ByteVocabulary())
    assert in_file(path, SECRET[2]) == {}


def test_files_that_no_window_names_any_more_are_told_and_those_of_others_are_not(
    events, path, learning, tmp_path
):
    learning._targets = tuple
    other = tmp_path / "team.bin"
    other.write_bytes(saved({(97,): {98: 4}}))
    learning.of(other)
    learning.begin_to_forget(Pieces([SECRET]))
    learning.forget(None)
    learning.report_left()
    told = [event for event in iter(lambda: events.next(0.0), None) if isinstance(event, Problem)]
    assert [str(path) in problem.message for problem in told] == [True]


def test_what_is_accepted_before_there_is_a_vocabulary_is_written_at_the_end(begin, path):
    session = begin(is_held=True, **options_of("file", path))
    session.accept("x", "ab")
    threading.Timer(0.2, session.loader.may_read.set).start()
    session.completer.close()
    assert in_file(path, "a") == {"b": 1}


def test_a_file_that_is_removed_is_told_and_the_store_counts(begin, path):
    session = begin(**options_of("both", path))
    session.accept("", "ab")
    session.completer._accepted.update_files()
    assert session.count("a") == {"b": 1}
    former = open_statistics(path, None).header
    path.unlink()
    until(lambda: session.count("a") and path.exists())
    header = open_statistics(path, None).header
    assert former is not None
    until(lambda: header.learned_id in session.completer._statistics.current().learned_ids)
    assert header.learned_id != former.learned_id
    assert session.count("a") == {"b": 1}
    session.accept("", "ac")
    assert session.count("a") == {"b": 1, "c": 1}
    (problem,) = session.problems()
    assert (
        problem == f"{path} was removed, and its counts with it; a new, empty one takes its place."
    )
    session.completer.close()
    assert begin(**options_of("both", path)).count("a") == {"b": 1, "c": 1}


@pytest.mark.parametrize("before", ["is_own", "begin"])
def test_a_file_that_is_removed_while_it_is_read_is_told(begin, path, monkeypatch, before):
    session = begin(**options_of("both", path))
    session.use_file()
    (former,) = session.completer._statistics.current().learned_ids
    step = getattr(LearnedFile, before)

    def removed(file, *arguments):
        if files.own_layout.read_header(path).learned_id == former:  # type: ignore[union-attr]
            path.unlink()
        return step(file, *arguments)

    monkeypatch.setattr(LearnedFile, before, removed)
    os.utime(path, (1, 1))
    until(lambda: session.completer._statistics.current().learned_ids not in ({former}, set()))
    (problem,) = session.problems()
    assert "was removed, and its counts with it" in problem


def test_a_folder_that_is_missing_is_one_problem_and_the_rest_works(begin, tmp_path):
    path = tmp_path / "none" / "mine.ngrams"
    session = begin(persist=True, lookup_cache_dynamic=[str(path)])
    problem = session.next_problem()
    assert "there is no folder" in problem.message
    assert problem.remedy == "Create the folder, or correct the path."
    for _ in range(2):
        session.accept("", "ab")
    session.completer.close()
    assert session.problems() == []
    assert begin(persist=True).count("a") == {"b": 2}


def test_a_link_to_itself_is_one_problem_and_stays(begin, path):
    path.symlink_to(path)
    session = begin(**options_of("both", path))
    assert "cannot be written: it is not a regular file" in session.next_problem().message
    assert path.is_symlink()


def test_a_damaged_file_is_one_problem_and_the_store_counts(begin, path):
    begin(**options_of("both", path)).accept("", "ab")
    first = begin(**options_of("both", path))
    first.completer.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    session = begin(**options_of("both", path))
    problem = session.next_problem()
    assert "cut or damaged" in problem.message
    session.accept("", "ac")
    request = request_between("", uri="u", file="/r/a.py")
    counts = session.completer.sources(request).statistics.dynamic
    assert dict(sum_of(counts, (97,))) == {98: 1, 99: 1}
    session.completer.close()
    assert session.problems() == []
    assert path.read_bytes() == whole[:-30]


def test_a_full_disk_is_one_problem_and_what_is_learned_counts_here(begin, path, monkeypatch):
    session = begin(**options_of("both", path))
    session.use_file()
    full = OSError(28, "No space left on device")
    with monkeypatch.context() as patched:
        patched.setattr(journal, "append", Mock(side_effect=full))
        for _ in range(3):
            session.accept("", "ab")
    assert session.count("a") == {"b": 3}
    session.accept("", "ab")
    assert session.count("a") == {"b": 4}
    (problem,) = session.problems()
    assert "No space left on device" in problem
    session.completer.close()
    assert in_file(path, "a") == {"b": 1}
    assert begin(**options_of("both", path)).count("a") == {"b": 4}


def test_a_file_that_cannot_be_written_is_one_problem_and_the_journal_has_the_texts(
    begin, path, monkeypatch
):
    session = begin(**options_of("both", path))
    session.use_file()
    full = StoreError(f"{path} cannot be written: No space left.", remedy="Make room.")
    with monkeypatch.context() as patched:
        patched.setattr(files, "write", Mock(side_effect=full))
        for _ in range(2):
            session.accept("", "ab")
            session.completer._accepted.update_files()
            assert session.count("a")["b"]
    (problem,) = session.problems()
    assert "No space left" in problem
    assert session.count("a") == {"b": 2}
    assert in_file(path, "a") == {}
    session.completer.close()
    assert in_file(path, "a") == {"b": 2}


def test_a_store_that_cannot_be_told_keeps_the_text_out_of_the_file(begin, path, monkeypatch):
    session = begin(**options_of("both", path))
    session.use_file()
    busy = BusyError("database is locked.")
    with monkeypatch.context() as patched:
        patched.setattr(AcceptedStore, "mark", Mock(side_effect=busy))
        session.accept("", "ab")
    assert session.count("a") == {"b": 1}
    session.completer.close()
    assert in_file(path, "a") == {}
    assert begin(**options_of("both", path)).count("a") == {"b": 1}


def test_engines_that_share_a_file_see_what_the_others_learned(begin, path, monkeypatch):
    one, other = begin(**options_of("both", path)), begin(**options_of("both", path))
    one.accept("", "ab")
    other.accept("", "ac")
    assert one.count("a") == {"b": 1}
    one.completer._accepted.update_files()
    everything = {"b": 1, "c": 1}
    until(lambda: one.count("a") == other.count("a") == everything)
    other.completer.close()
    one.completer.close()
    assert in_file(path, "a") == everything


def test_a_file_is_written_once_a_minute_at_most(begin, path, monkeypatch):
    session = begin(**options_of("file", path))
    session.use_file()
    written = path.read_bytes()
    for _ in range(3):
        session.accept("", "ab")
    assert path.read_bytes() == written
    monkeypatch.setattr(learned_files, "FOLD_EVERY_S", 0.0)
    session.accept("", "ab")
    assert session.completer.wait_idle(WAIT_S)
    assert in_file(path, "a") == {"b": 4}
    until(lambda: session.count("a") == {"b": 4})


@pytest.mark.slow
def test_more_than_a_journal_holds_in_a_minute_is_counted(begin, path):
    session = begin(**options_of("file", path))
    session.use_file()
    for number in range(100):
        session.accept("", "ab" + f"{number:04}" * 1000)
    session.completer.close()
    assert in_file(path, "a") == {"b": 100}
    assert session.problems() == []


def test_a_killed_engine_loses_nothing_that_was_accepted(begin, path):
    session = begin(**options_of("both", path))
    session.accept("", "ab")
    # It never closes.
    later = begin(**options_of("both", path))
    assert later.count("a") == {"b": 1}
    later.completer.close()
    assert in_file(path, "a") == {"b": 1}
