import errno
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from indexed_project import IndexUnderTest, WordTokenizer, git, line, write
from waiting import until
from watchdog.observers.api import BaseObserver

from speclsp.errors import EngineError, StoreError
from speclsp.project import project_index
from speclsp.project.scan import scan
from speclsp.project.source_text import MAX_BYTES
from speclsp.seam.events import LogLine, Problem, Progress
from speclsp.storage.token_store import TokenStore

MakeIndex = Callable[..., IndexUnderTest]


def lines(*numbers: int) -> str:
    return "".join(map(line, numbers))


class TestScan:
    def test_files_are_drafted_from(self, project, make_index):
        write(project / "a.py", lines(1, 2))
        write(project / "sub" / "b.py", lines(3))
        index = make_index().open().built()
        assert [index.follows(f"key {n} : ") for n in (1, 2, 3)] == ["word1", "word2", "word3"]
        stats = index.index.stats()
        assert (stats.n_files, stats.n_skipped, stats.building) == (2, 0, False)
        assert stats.n_tokens == sum(
            len(WordTokenizer.tokens(text)) for text in (lines(1, 2), lines(3))
        )

    def test_left_out_files(self, project, make_index):
        write(project / ".gitignore", "ignored.py\n")
        write(project / "ignored.py", lines(1))
        write(project / ".env", lines(2))
        write(project / "binary.py", b"\0" + lines(3).encode())
        write(project / "huge.py", lines(4) * (MAX_BYTES // len(lines(4)) + 1))
        write(project / "node_modules" / "m.js", lines(5))
        write(project / "excluded" / "e.py", lines(6))
        write(project / "a.py", lines(7))
        index = make_index(exclude=["excluded/"]).open().built()
        found = [index.follows(f"key {n} : ") for n in range(1, 8)]
        assert found == ["", "", "", "", "", "", "word7"]
        stats = index.index.stats()
        assert (stats.n_files, stats.n_skipped) == (2, 3)  # .gitignore is a text file, too

    def test_progress_begins_reports_and_ends(self, project, make_index):
        write(project / "a.py", lines(1))
        index = make_index().open().built()
        progress = index.of_type(Progress)
        assert [event.stage for event in progress] == ["begin", "report", "end"]
        assert len({event.token for event in progress}) == 1
        assert progress[0].title == "Indexing project"
        assert (progress[1].message, progress[1].percentage) == ("1/1 files", 100)
        # Another folder's index of the same process has another progress.
        assert make_index().open().built().of_type(Progress)[0].token != progress[0].token

    @pytest.mark.slow
    def test_usable_while_building(self, project, make_index):
        for number in range(2000):
            write(project / f"d{number % 20}" / f"f{number}.py", lines(number) * 3)
        tokenize = WordTokenizer()
        index = make_index(tokenize=tokenize)
        real_tokens = tokenize.tokens

        def stop_midway(text):
            if tokenize.n_calls == 1500:
                tokenize.gate.clear()
            return real_tokens(text)

        tokenize.tokens = stop_midway  # type: ignore[method-assign]
        index.open()
        until(lambda: not tokenize.gate.is_set())
        stats = index.index.stats()
        assert stats.building
        assert stats.n_tokens > 0
        found = {index.follows(f"key {n} : ") for n in range(2000)}
        assert len(found - {""}) > 300
        tokenize.gate.set()
        index.built()
        assert index.index.stats().n_files == 2000
        assert all(index.follows(f"key {n} : ") == f"word{n}" for n in range(0, 2000, 13))
        assert index.index.corpora()[0].n_indexes <= 3  # type: ignore[attr-defined]

    def test_files_beside_open_ones_come_first(self, project, make_index):
        for name in ("a/1.py", "b/2.py", "z/3.py", "z/4.py"):
            write(project / name, f"# {name}\n")
        seen: list[str] = []
        tokenize = WordTokenizer()
        tokenize.tokens = lambda text: seen.append(text.split()[1]) or np.zeros(1, np.int32)  # type: ignore[func-returns-value, method-assign, assignment]
        index = make_index(tokenize=tokenize)
        index.index.set_open(frozenset({str(project / "z" / "4.py")}))
        index.open().built()
        assert seen == ["z/3.py", "z/4.py", "a/1.py", "b/2.py"]

    def test_max_files(self, project, make_index, monkeypatch):
        monkeypatch.setitem(scan.__kwdefaults__, "max_files", 3)
        monkeypatch.setattr(project_index, "MAX_FILES", 3)
        for number in range(5):
            write(project / f"{number}.py", lines(number))
        index = make_index().open().built()
        assert index.index.stats().n_files == 3
        assert "only the first 3 files" in index.of_type(LogLine)[0].message

    def test_switched_off(self, project, make_index):
        write(project / "a.py", lines(1))
        index = make_index(index_project=False).open().built()
        assert index.index.corpora() == ()
        assert index.tokenize.n_calls == 0
        # The prompt still takes what the files define.
        assert index.of_type(Progress)[0].title == "Reading project"

    def test_text_that_cannot_be_tokenised(self, project, make_index):
        write(project / "bad.py", "bad")
        write(project / "good.py", lines(1))
        write(project / "large.py", "large")
        tokenize = WordTokenizer()

        def tokens(text):
            if text == "bad":
                raise EngineError("no such text")
            return np.array([2**30], np.int32) if text == "large" else WordTokenizer.tokens(text)

        tokenize.tokens = tokens  # type: ignore[method-assign]
        index = make_index(tokenize=tokenize).open().built()
        assert index.follows("key 1 : ") == "word1"
        assert sum("py" in event.message for event in index.of_type(LogLine)) == 2
        assert index.index.stats().n_skipped == 2

    def test_unforeseen_failure_is_told_and_survived(self, project, make_index, monkeypatch):
        write(project / "a.py", lines(1))
        index = make_index()
        real_scan = project_index.scan
        failures = iter([RuntimeError("boo")])

        def scan(*arguments, **keywords):
            for failure in failures:
                raise failure
            return real_scan(*arguments, **keywords)

        monkeypatch.setattr(project_index, "scan", scan)
        index.open()
        until(lambda: bool(index.of_type(Problem)))
        assert "boo" in index.of_type(Problem)[0].message
        index.index.reindex()
        until(lambda: index.follows("key 1 : ") == "word1")
        stages = [event.stage for event in index.of_type(Progress)]
        assert stages.count("begin") == stages.count("end") == 2

    def test_the_last_failure_advises_a_restart(self, project, make_index, monkeypatch):
        monkeypatch.setattr(project_index, "scan", Mock(side_effect=RuntimeError("boo")))
        index = make_index().open()
        for n_failures in range(1, project_index._MAX_FAILURES + 1):
            until(lambda: len(index.of_type(Problem)) == n_failures)  # noqa: B023
            index.index.reindex()
        advice = ["reindex" in problem.remedy for problem in index.of_type(Problem)]
        assert advice == [True, True, False]
        until(lambda: not index.index.stats().building)

    def test_closing_while_building(self, project, make_index):
        for number in range(200):
            write(project / f"{number}.py", lines(number))
        tokenize = WordTokenizer()
        tokenize.gate.clear()
        index = make_index(tokenize=tokenize).open()
        threading.Timer(0.05, tokenize.gate.set).start()
        index.index.close()
        assert not index.index._thread.is_alive()
        assert tokenize.n_calls <= 2
        assert [event.stage for event in index.of_type(Progress)][-1:] in ([], ["end"])

    def test_makes_way_for_completions_but_gets_on(self, project, make_index):
        write(project / "a.py", lines(1))
        asked: list[bool] = []

        def busy():
            asked.append(True)
            return True

        index = make_index(busy=busy).open().built()
        assert index.follows("key 1 : ") == "word1"
        assert len(asked) > 5


class TestFolders:
    def test_folder_by_a_link(self, project, tmp_path, make_index):
        write(project / "a.py", lines(1))
        (tmp_path / "link").symlink_to(project)
        index = make_index(tmp_path / "link").open().built()
        index.index.set_open(frozenset({str(tmp_path / "link" / "a.py")}))
        assert index.follows("key 1 : ") == ""
        index.index.set_open(frozenset())
        write(project / "b.py", lines(2))
        index.index.changed(str(tmp_path / "link" / "b.py"))
        until(lambda: index.follows("key 2 : ") == "word2")

    def test_missing_folder_is_told(self, tmp_path, make_index):
        index = make_index(tmp_path / "gone").open().built()
        assert index.index.corpora() == ()
        assert "cannot be read" in index.of_type(LogLine)[0].message


class TestOpenFiles:
    def test_open_file_is_not_drafted_from(self, project, make_index):
        path = write(project / "a.py", lines(1))
        write(project / "b.py", lines(2))
        index = make_index()
        index.index.set_open(frozenset({str(path), "/elsewhere.py"}))
        index.open().built()
        assert (index.follows("key 1 : "), index.follows("key 2 : ")) == ("", "word2")
        index.index.set_open(frozenset())
        assert index.follows("key 1 : ") == "word1"

    def test_saved_while_open(self, project, make_index):
        path = write(project / "a.py", lines(1))
        index = make_index().open().built()
        index.index.set_open(frozenset({str(path)}))
        write(path, lines(2, 3))
        index.index.changed(str(path))
        until(lambda: index.tokenize.n_calls == 2)
        until(lambda: index.index.stats().n_tokens == len(WordTokenizer.tokens(lines(2, 3))))
        assert (index.follows("key 1 : "), index.follows("key 2 : ")) == ("", "")
        index.index.set_open(frozenset())
        assert (index.follows("key 1 : "), index.follows("key 2 : ")) == ("", "word2")

    def test_copy_of_an_open_file_counts(self, project, make_index):
        for name in ("a.py", "b.py"):
            write(project / name, lines(1))
        index = make_index().open().built()
        index.index.set_open(frozenset({str(project / "a.py")}))
        assert index.follows("key 1 : ") == "word1"
        assert index.tokenize.n_calls == 1


class TestChanges:
    def test_write_rename_and_delete(self, project, make_index):
        write(project / "a.py", lines(1))
        index = make_index().open().built()
        write(project / "b.py", lines(2))
        until(lambda: index.follows("key 2 : ") == "word2")
        write(project / "a.py", lines(3))
        until(lambda: index.follows("key 3 : ") == "word3")
        assert index.follows("key 1 : ") == ""
        n_calls = index.tokenize.n_calls
        (project / "b.py").rename(project / "c.py")
        paths = index.index._files.paths
        until(lambda: {Path(p).name for p in paths()} == {"a.py", "c.py"})
        assert index.follows("key 2 : ") == "word2"
        assert index.tokenize.n_calls == n_calls
        (project / "c.py").unlink()
        until(lambda: index.follows("key 2 : ") == "")
        assert index.follows("key 3 : ") == "word3"

    def test_replaced_by_rename_as_editors_do(self, project, make_index):
        write(project / "a.py", lines(1))
        index = make_index().open().built()
        write(project / "a.py~tmp", lines(2)).replace(project / "a.py")
        until(lambda: index.follows("key 2 : ") == "word2")
        until(lambda: index.follows("key 1 : ") == "")

    def test_folders_made_moved_and_deleted(self, project, tmp_path, make_index):
        write(tmp_path / "away" / "deep" / "x.py", lines(1))
        write(project / "a.py", lines(9))
        index = make_index().open().built()
        shutil.move(tmp_path / "away", project / "pkg")
        until(lambda: index.follows("key 1 : ") == "word1")
        (project / "pkg").rename(project / "lib")
        write(project / "lib" / "deep" / "y.py", lines(2))
        until(lambda: index.follows("key 2 : ") == "word2")
        assert index.follows("key 1 : ") == "word1"
        shutil.move(project / "lib", tmp_path / "gone")
        until(lambda: index.follows("key 1 : ") == "" == index.follows("key 2 : "))
        write(project / "new" / "er" / "z.py", lines(3))
        until(lambda: index.follows("key 3 : ") == "word3")
        shutil.rmtree(project / "new")
        until(lambda: index.follows("key 3 : ") == "")
        assert index.follows("key 9 : ") == "word9"

    def test_folder_beside_an_ignored_one(self, project, make_index):
        write(project / "node_modules" / "m.js", lines(1))
        write(project / "src" / "a.py", lines(2))
        index = make_index().open().built()
        write(project / "fresh" / "deep" / "b.py", lines(3))
        until(lambda: index.follows("key 3 : ") == "word3")
        write(project / "fresh" / "deep" / "c.py", lines(4))
        until(lambda: index.follows("key 4 : ") == "word4")
        write(project / "node_modules" / "n.js", lines(5))
        write(project / "src" / "d.py", lines(6))
        until(lambda: index.follows("key 6 : ") == "word6")
        assert index.follows("key 5 : ") == ""

    def test_secret_ignored_and_linked_files_stay_out(self, project, tmp_path, make_index):
        write(project / ".gitignore", "out/\n*.gen\n")
        index = make_index().open().built()
        write(tmp_path / "outside.py", lines(1))
        (project / "link.py").symlink_to(tmp_path / "outside.py")
        (project / "linked").symlink_to(tmp_path)
        write(project / ".env", lines(2))
        write(project / "out" / "a.py", lines(3))
        write(project / "b.gen", lines(4))
        write(project / "c.py", lines(5))
        until(lambda: index.follows("key 5 : ") == "word5")
        assert [index.follows(f"key {n} : ") for n in range(1, 5)] == [""] * 4

    def test_file_that_becomes_binary(self, project, make_index):
        write(project / "a.py", lines(1))
        index = make_index().open().built()
        write(project / "a.py", b"\0\0")
        until(lambda: index.follows("key 1 : ") == "")
        write(project / "a.py", lines(2))
        until(lambda: index.follows("key 2 : ") == "word2")

    def test_changed_gitignore(self, project, make_index):
        write(project / "a.py", lines(1))
        write(project / "sub" / "b.py", lines(2))
        index = make_index().open().built()
        write(project / "sub" / ".gitignore", "b.py\n")
        until(lambda: index.follows("key 2 : ") == "")
        assert index.follows("key 1 : ") == "word1"
        (project / "sub" / ".gitignore").unlink()
        until(lambda: index.follows("key 2 : ") == "word2")

    def test_changed_gitignore_that_is_ignored_itself(self, project, make_index):
        write(project / "a.py", lines(1))
        write(project / ".gitignore", ".gitignore\n")
        index = make_index().open().built()
        write(project / ".gitignore", ".gitignore\na.py\n")
        until(lambda: index.follows("key 1 : ") == "")

    def test_branch_switch(self, project, make_index):
        git(project, "init", "-b", "main")
        for number in range(400):
            write(project / f"d{number % 7}" / f"{number}.py", lines(number))
        git(project, "add", ".")
        git(project, "commit", "-m", "one")
        git(project, "checkout", "-b", "other")
        for number in range(400):
            path = project / f"d{number % 7}" / f"{number}.py"
            if number % 4 == 0:
                path.unlink()
            else:
                write(path, lines(1000 + number))
        write(project / "only here" / "x.py", lines(2000))
        git(project, "add", ".")
        git(project, "commit", "-m", "two")
        index = make_index().open().built()
        assert index.follows("key 1001 : ") == "word1001"
        n_calls = index.tokenize.n_calls
        git(project, "checkout", "main")
        until(lambda: index.index.stats().n_files == 400)
        until(lambda: all(index.follows(f"key {n} : ") == f"word{n}" for n in range(400)))
        assert index.follows("key 1001 : ") == index.follows("key 2000 : ") == ""
        assert index.tokenize.n_calls == n_calls + 400
        git(project, "checkout", "other")
        until(lambda: index.follows("key 2000 : ") == "word2000")
        until(lambda: index.follows("key 1399 : ") == "word1399")
        until(lambda: index.follows("key 1 : ") == "")
        assert not index.of_type(Problem)

    def test_root_vanishes_and_comes_back(self, project, tmp_path, make_index):
        write(project / "a.py", lines(1))
        index = make_index().open().built()
        project.rename(tmp_path / "away")
        index.index.changed(str(project))
        until(lambda: index.index.corpora() == ())
        (tmp_path / "away").rename(project)
        index.index.reindex()
        until(lambda: index.follows("key 1 : ") == "word1")

    def test_reindexing_while_changed_files_are_read(self, project, make_index):
        write(project / "a.py", lines(1))
        index = make_index().open().built()
        real_tokens, calls = index.tokenize.tokens, []

        def reindex_meanwhile(text):
            calls.append(text)
            index.index.reindex()
            return real_tokens(text)

        index.tokenize.tokens = reindex_meanwhile  # type: ignore[method-assign]
        write(project / "a.py", lines(1, 2))
        index.index.changed(str(project / "a.py"))
        until(lambda: [event.stage for event in index.of_type(Progress)].count("end") == 2)
        assert calls == [lines(1, 2)]

    def test_changes_elsewhere_are_nothing(self, project, make_index):
        write(project / "a.py", lines(1))
        index = make_index().open().built()
        for path in ("/", "", "/nowhere/x.py", str(project) + "suffix/a.py", "relative"):
            index.index.changed(path)
        write(project / "b.py", lines(2))
        index.index.changed(str(project / "b.py"))
        until(lambda: index.follows("key 2 : ") == "word2")
        assert not index.of_type(Problem)

    def test_without_watching_it_scans_now_and_then(self, project, make_index, monkeypatch):
        full = OSError(errno.ENOSPC, "inotify watch limit reached")
        monkeypatch.setattr(BaseObserver, "schedule", Mock(side_effect=full))
        monkeypatch.setattr(project_index, "_POLL_S", 0.05)
        write(project / "a.py", lines(1))
        index = make_index().open().built()
        assert index.follows("key 1 : ") == "word1"
        write(project / "b.py", lines(2))
        until(lambda: index.follows("key 2 : ") == "word2")
        (problem,) = index.of_type(Problem)
        assert "max_user_watches" in problem.remedy

    def test_sweeps_find_what_watching_missed(self, project, make_index, monkeypatch):
        monkeypatch.setattr(BaseObserver, "schedule", lambda *args, **kwargs: object())
        monkeypatch.setattr(BaseObserver, "unschedule", lambda *args: None)
        monkeypatch.setattr(project_index, "_SWEEP_S", 0.05)
        index = make_index().open().built()
        write(project / "b.py", lines(2))
        until(lambda: index.follows("key 2 : ") == "word2")
        assert sum(event.stage == "begin" for event in index.of_type(Progress)) == 1


class TestPersistence:
    def test_failing_store_is_told_once_and_done_without(
        self, project, tmp_path, make_index, monkeypatch
    ):
        store = TokenStore(tmp_path / "t.sqlite3")
        full = StoreError("disk full", remedy="Delete something.")
        monkeypatch.setattr(store, "flush", Mock(side_effect=full))
        for number in range(3):
            write(project / f"{number}.py", lines(number))
        index = make_index(token_store=store).open().built()
        write(project / "x.py", lines(7))
        until(lambda: index.follows("key 7 : ") == "word7")
        assert index.follows("key 1 : ") == "word1"
        (message,) = [event.message for event in index.of_type(LogLine)]
        assert "disk full" in message
        assert "Delete something." in message


@pytest.mark.real
def test_with_a_real_vocabulary(project, make_index, model_folder):
    from speclsp.backends.llama.vocabulary import load_vocabulary

    vocabulary = load_vocabulary(model_folder / "embedded-target-f16.gguf")
    text = "def area(width, height):\n    return width * height\n"
    write(project / "shapes.py", text)
    index = make_index(tokenize=vocabulary.tokenize).open()
    # The fixture lets a held-up tokenizer go, which a real one never is.
    index.tokenize = WordTokenizer()
    index.built()
    tokens = vocabulary.tokenize(text)
    (corpus,) = index.index.corpora()
    found, n_matched = corpus.continuation(tokens[:8], 3, 16, 5)
    assert found.tolist() == tokens[8:13].tolist()
    assert n_matched == 8
    index.index.close()
