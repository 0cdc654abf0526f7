"""``speclsp ngram build`` on more than memory holds: lost workers, interruptions, a cluster."""

import errno
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result
from filelock import FileLock
from waiting import until

from speclsp.backends.llama.vocabulary import load_vocabulary
from speclsp.cli import ngram_build
from speclsp.cli.main import cli
from speclsp.embedded import embedded_target
from speclsp.errors import SpecLspError, StoreError
from speclsp.ngrams.counting import count_tokens
from speclsp.ngrams.files import open_statistics, write
from speclsp.ngrams.parts import StoredTable

N_FILES = 48


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real source text in many small files."""
    folder = tmp_path_factory.mktemp("corpus")
    lines = Path(random.__file__).read_text().splitlines()
    dice = random.Random(1)
    for idx in range(N_FILES):
        start = dice.randrange(len(lines) - 40)
        text = "\n".join(lines[start : start + 40])
        (folder / f"m{idx}.py").write_text(f"{text}\n# {idx}\n")
    return folder


@pytest.fixture(scope="module")
def expected(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file that a build in memory writes."""
    vocabulary = load_vocabulary(embedded_target())
    texts = [vocabulary.tokenize(path.read_text()) for path in sorted(corpus.iterdir())]
    path = tmp_path_factory.mktemp("expected") / "file"
    write(path, count_tokens(texts, range(1, 5)).by_order, "speclsp", vocabulary)
    return path.read_bytes()


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["ngram", *map(str, arguments)], catch_exceptions=False)


def test_an_interrupted_build_goes_on(corpus, expected, tmp_path, monkeypatch):
    output = tmp_path / "file"
    command = ("build", corpus, "-o", output, "--processes", "1", "--memory", "1")
    done: list[str] = []
    stop_after = [3]

    def interrupted(name: str, task: Callable[..., Any]) -> Callable[..., Any]:
        def work(*arguments: Any, **options: Any) -> Any:
            if len(done) == stop_after[0]:
                raise KeyboardInterrupt
            done.append(name)
            return task(*arguments, **options)

        return work

    monkeypatch.setattr(ngram_build, "count_tokens", interrupted("count", ngram_build.count_tokens))
    monkeypatch.setattr(ngram_build, "sum_range", interrupted("sum", ngram_build.sum_range))
    assert run(*command).exit_code != 0
    assert done == ["count"] * 3
    stop_after[0] = 12
    assert run(*command).exit_code != 0
    assert not output.exists()
    stop_after[0] = -1
    result = run(*command)
    assert result.exit_code == 0
    assert "Continuing with the counts of an earlier build" in result.stderr
    n_counted = done.count("count")
    assert n_counted < 12, "the second interruption is to hit the sums"
    sums = done.count("sum")

    done.clear()
    assert run(*command[:3], tmp_path / "anew", *command[4:]).exit_code == 0
    assert (done.count("count"), done.count("sum")) == (n_counted, sums), "nothing was done twice"
    assert output.read_bytes() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["anew", "file"]


def test_one_build_at_a_time_and_none_goes_on_with_remains(corpus, tmp_path, monkeypatch):
    command = ("build", corpus, "-o", tmp_path / "file", "--processes", "1")
    work = tmp_path / ".file.build"

    def killed(*_: Any, **__: Any) -> None:
        """Remove nothing, and try to continue with the folder that was to be removed."""
        if work.exists():
            with pytest.raises(StoreError, match="another build"), ngram_build.work_folder(work):
                pytest.fail("the folder is given away before it is removed")

    with ngram_build.work_folder(work):
        (work / "part").mkdir()
        with pytest.raises(StoreError, match="another build"):
            run(*command)
        with pytest.raises(FileNotFoundError):
            StoredTable(work / "part", 1).exists()
        monkeypatch.setattr(ngram_build.shutil, "rmtree", killed)
    assert not work.exists()
    monkeypatch.undo()
    assert "Continuing" not in run(*command).stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOLCK, ""), OSError(errno.EOPNOTSUPP, ""), NotImplementedError()]
)
def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch, error):
    def acquire(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(FileLock, "acquire", acquire)
    unheld = ngram_build.work_folder(tmp_path / "work")
    with pytest.raises(StoreError, match="no file locks") as raised, unheld:
        pytest.fail("nothing keeps another build out")
    assert "local disk" in str(raised.value)


def test_a_changed_file_is_counted_anew(corpus, tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.py").write_text("a = 1\n" * 100)
    more = ("--processes", "1")
    with monkeypatch.context() as patch:
        patch.setattr(ngram_build, "boundaries", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run("build", folder, "-o", tmp_path / "file", *more)
    assert (tmp_path / ".file.build").exists()
    (folder / "a.py").write_text("b = 2\n" * 100)
    run("build", folder, "-o", tmp_path / "file", *more)
    run("build", folder, "-o", tmp_path / "anew", *more)
    assert (tmp_path / "file").read_bytes() == (tmp_path / "anew").read_bytes()


def parts_of(output: Path) -> list[Path]:
    work = output.with_name(f".{output.name}.build")
    return [path for path in work.iterdir() if not path.suffix] if work.exists() else []


def test_a_lost_process_is_replaced(corpus, expected, tmp_path):
    output = tmp_path / "file"
    command = [sys.executable, "-m", "speclsp", "ngram", "build", str(corpus), "-o", str(output)]
    build = subprocess.Popen([*command, "--memory", "1", "--processes", "2"])
    try:
        until(lambda: bool(parts_of(output)))
        lost = [
            child
            for child in psutil.Process(build.pid).children()
            if "spawn_main" in " ".join(child.cmdline())
        ]
        lost[0].send_signal(signal.SIGKILL)
        assert not output.exists(), "the process was lost while files were counted"
        assert build.wait(300) == 0
    finally:
        build.kill()
    assert output.read_bytes() == expected
    assert list(tmp_path.iterdir()) == [output]


def test_processes_that_end_with_each_task_are_given_up(tmp_path):
    with pytest.raises(SpecLspError, match="4 counting processes in a row ended"):
        list(ngram_build.in_processes(2)(os._exit, [1, 1]))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start a Dask cluster of two processes."""
    distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
    ) as started:
        yield started


def test_a_clusters_lost_worker(cluster, corpus, expected, tmp_path):
    output = tmp_path / "file"
    pids = [nanny.pid for nanny in cluster.workers.values()]
    was_unfinished: list[bool] = []

    def kill() -> None:
        until(lambda: bool(parts_of(output)))
        os.kill(pids[0], signal.SIGKILL)
        was_unfinished.append(not output.exists())

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        result = run(
            "build", corpus, "-o", output, "--memory", "1", "--scheduler", cluster.scheduler_address
        )
    finally:
        killer.join()
    assert was_unfinished == [True]
    assert result.exit_code == 0
    assert output.read_bytes() == expected


def test_no_scheduler(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(ngram_build, "_CONNECT_TIMEOUT_S", 0.2)
    with pytest.raises(
        SpecLspError, match=r"no Dask scheduler with a worker answers at tcp://127\.0\.0\.1:9"
    ):
        run("build", corpus, "-o", tmp_path / "file", "--scheduler", "tcp://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(SpecLspError, match=r"pip install '?distributed"):
        run("build", corpus, "-o", tmp_path / "file", "--scheduler", "tcp://127.0.0.1:9")


@pytest.mark.slow
def test_a_scheduler_without_workers(corpus, tmp_path, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")
    monkeypatch.setattr(ngram_build, "_CONNECT_TIMEOUT_S", 2.0)
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0") as empty:
        address = empty.scheduler_address
        with pytest.raises(SpecLspError, match="no Dask scheduler with a worker"):
            run("build", corpus, "-o", tmp_path / "file", "--scheduler", address)


def test_rare_followers_are_left_out_after_the_sum(corpus, expected, tmp_path):
    output, whole = tmp_path / "file", tmp_path / "whole"
    whole.write_bytes(expected)
    run("build", corpus, "-o", output, "--memory", "1", "--processes", "1", "--min-count", "3")
    kept, every = open_statistics(output, None).tables, open_statistics(whole, None).tables
    n_kept = 0
    for order, table in every.by_order.items():
        for gram in map(tuple, table.grams.tolist()):
            followers = every.followers(gram)
            found = kept.followers(gram)
            assert found == {token: count for token, count in followers.items() if count >= 3}
            n_kept += len(found)
        assert 0 < kept.by_order[order].tokens.size < table.tokens.size
    assert n_kept == sum(table.tokens.size for table in kept.by_order.values())
