"""Lets every call on a store's files fail, one after the other, and checks what is left.

Run with faulty_disk.c preloaded: ``fault_matrix.py WORKLOAD FOLDER SHARE``.  For each call of the
workload and each kind of fault a process is forked that meets it; for each call of the recovery
after that, another one that meets a second fault; then what is stored is read without faults.
Clock and random numbers are fixed, so that what happens next follows from the files' content:
where a fault leaves the same files as another one did, that is not tried again.
SHARE is the part of the cases that is run, 1 for all.  Prints counts as JSON, or the first case
that lost something.
"""

import ctypes
import errno
import hashlib
import itertools
import json
import os
import random
import shutil
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from speclsp.drafting.drafter import sum_of
from speclsp.errors import DownloadError, StoreError
from speclsp.models.cache import cached_models, cached_paths, hub_constants, partial_of, place_of
from speclsp.models.download import Download, pull
from speclsp.models.listing import RemoteFile
from speclsp.models.references import Reference
from speclsp.ngrams.counting import Observations, table_of
from speclsp.ngrams.files import open_statistics, write
from speclsp.ngrams.learned_file import LearnedFile
from speclsp.storage.accepted_store import AcceptedStore
from speclsp.storage.locations import workspace_id
from speclsp.storage.token_store import TokenStore

Step = Callable[[], object]
FAULTS = {
    "killed": (0, 1),
    "EIO": (errno.EIO, 1),
    "disk full": (errno.ENOSPC, 1 << 40),
    "read-only": (errno.EROFS, 1 << 40),
}
"""Error number, and how many calls fail."""
SECOND_FAULTS = ("killed", "EIO")
MOST_RECOVERY_CALLS = 60
"""Where only a part of the cases is run."""

disk: Any = None  # the preloaded library


class Workload:
    """Steps that each commit something.  ``read`` says how many steps' results are there."""

    n_steps = 4

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "store"
        self.problems: list[str] = []

    def prepare(self) -> None:
        """Make what is there before the first step."""

    def run(self, told: Callable[[int], None]) -> None:
        raise NotImplementedError

    def read(self) -> int:
        raise NotImplementedError

    def check_files(self) -> None:
        """Check more of what is left, without faults."""

    def report(self, error: StoreError) -> None:
        self.problems.append(str(error))


class Accepted(Workload):
    """Texts are appended; the last step forgets another workspace's."""

    def prepare(self) -> None:
        store = AcceptedStore(self.path)
        store.append("/other", "x")
        store.append("/a", "0")
        store.close()

    def run(self, told: Callable[[int], None]) -> None:
        store = AcceptedStore(self.path, report=self.report)
        for number in range(1, self.n_steps):
            store.append("/a", str(number))
            told(number)
        store.forget(workspace_id("/other"))
        told(self.n_steps)
        store.close()

    def read(self) -> int:
        store = AcceptedStore(self.path, report=self.report)
        texts = [kept.text for kept in store.recent("/a", 100)]
        is_forgotten = not store.recent("/other", 1)
        store.close()
        assert texts == [str(number) for number in range(len(texts))], texts
        return len(texts) - 1 + is_forgotten


class NewAccepted(Accepted):
    """The first step's store does not exist before."""

    def prepare(self) -> None:
        """Nothing."""

    def run(self, told: Callable[[int], None]) -> None:
        store = AcceptedStore(self.path, report=self.report)
        store.append("/other", "x")
        store.append("/a", "0")
        store.close()
        told(0)
        super().run(told)

    def read(self) -> int:
        return max(0, super().read())


class DamagedAccepted(Accepted):
    """The file is damaged before: it is set aside, and a new one takes its place."""

    def run(self, told: Callable[[int], None]) -> None:
        # The last step forgets what is not there.
        super().run(lambda number: told(min(number, 3)))

    def prepare(self) -> None:
        self.path.write_bytes(b"damaged" * 5000)

    def check_files(self) -> None:
        assert Path(f"{self.path}.damaged").read_bytes()[:7] == b"damaged"

    def read(self) -> int:
        store = AcceptedStore(self.path, report=self.report)
        texts = [kept.text for kept in store.recent("/a", 100)]
        store.close()
        self.problems = [problem for problem in self.problems if "set aside" not in problem]
        n_told = len(texts)
        assert texts == [str(number) for number in range(1, n_told + 1)], texts
        return n_told


class Tokens(Workload):
    """Tokens of files are put; the last step notes that only some are used and evicts the rest."""

    n_steps = 3

    def run(self, told: Callable[[int], None]) -> None:
        store = TokenStore(self.path, report=self.report)
        for number in range(1, self.n_steps + 1):
            tokens = np.random.default_rng(number).integers(0, 2**20, 3000).astype(np.int32)
            store.put("/a", "f", bytes([number]) * 16, tokens)
            store.flush()
            told(number)
        store.note_use("/a", "f", [bytes([1]) * 16])
        store.close()

    def read(self) -> int:
        store = TokenStore(self.path, report=self.report)
        n_read = 0
        for number in range(1, self.n_steps + 1):
            tokens = np.random.default_rng(number).integers(0, 2**20, 3000).astype(np.int32)
            found = store.get("f", bytes([number]) * 16)
            assert found is None or (found == tokens).all()
            if found is not None:
                assert n_read == number - 1
                n_read = number
        store.close()
        return n_read


class StatisticsFile(Workload):
    """A statistics file is written again and again."""

    n_steps = 2
    layout: Any = "speclsp"

    class Vocabulary:
        n_tokens = 1000
        fingerprint = "f"

    def prepare(self) -> None:
        self.write(0)

    def write(self, number: int) -> None:
        grams = np.arange(2000, dtype=np.int32).reshape(-1, 2) % 500
        followers = np.full(len(grams), number, dtype=np.int32)
        counts = np.ones(len(grams), dtype=np.int32)
        table = table_of(Observations(grams, followers, counts))
        write(self.path, {2: table}, self.layout, self.Vocabulary())

    def run(self, told: Callable[[int], None]) -> None:
        for number in range(1, self.n_steps + 1):
            self.write(number)
            told(number)

    def read(self) -> int:
        found = open_statistics(self.path, self.Vocabulary())
        (number,) = set(found.tables.by_order[2].tokens.tolist())
        return int(number)


class LlamaCppStatisticsFile(StatisticsFile):
    layout = "llama.cpp"


class LearnedStatistics(Workload):
    """Texts are learned; every second time their counts enter the statistics file."""

    class Vocabulary:
        n_tokens = 1000
        fingerprint = "f"

    def begun(self) -> LearnedFile:
        file = LearnedFile(self.path, self.report)
        file.begin(self.Vocabulary())
        return file

    def run(self, told: Callable[[int], None]) -> None:
        file = self.begun()
        for number in range(1, self.n_steps + 1):
            assert file.append(np.array([0, number], np.int32), 0, file.begin(self.Vocabulary()))
            told(number)
            if number % 2 == 0:
                file.fold()

    def read(self) -> int:
        file = self.begun()
        file.fold()
        opened = file.open(self.Vocabulary())
        assert opened.learned is not None
        found = dict(sum_of([opened.tables, opened.learned], (0,)))
        self.problems = [problem for problem in self.problems if "do not count" not in problem]
        assert found == dict.fromkeys(range(1, len(found) + 1), 1), found
        return len(found)


class HubCache(Workload):
    """Versions of a model get into Hugging Face's cache, one after the other.

    All of a version's bytes were received; it is verified, and named.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        hub_constants().HF_HUB_CACHE = str(folder)

    def prepare(self) -> None:
        for number in range(1, self.n_steps + 1):
            blob = place_of(self.file(number))
            blob.parent.mkdir(parents=True, exist_ok=True)
            name = self.file(number).name
            partial_of(blob, name).write_bytes(self.data(number))
            partial_of(blob.with_name("0" * 64), name).write_bytes(b"of a former version")

    def run(self, told: Callable[[int], None]) -> None:
        for number in range(1, self.n_steps + 1):
            pull(Download(files=(self.file(number),), missing_bytes=0))
            told(number)

    def file(self, number: int) -> RemoteFile:
        data = self.data(number)
        return RemoteFile(
            origin="a/b",
            name=f"{number}.gguf",  # else what was received of the others would be removed
            url="https://hub.invalid/m.gguf",
            size=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            commit=f"{number:040x}",
        )

    def data(self, number: int) -> bytes:
        return b"GGUF" + bytes([number]) * 5000

    def read(self) -> int:
        paths = cached_paths(Reference("a/b"))
        return int(paths[0].parent.name, 16) if paths else 0

    def check_files(self) -> None:
        for _, path in cached_models():
            assert path.read_bytes() == self.data(int(path.parent.name, 16)), path


WORKLOADS: dict[str, type[Workload]] = {
    "hub-cache": HubCache,
    "accepted": Accepted,
    "accepted-new": NewAccepted,
    "accepted-damaged": DamagedAccepted,
    "tokens": Tokens,
    "statistics": StatisticsFile,
    "statistics-llama.cpp": LlamaCppStatisticsFile,
    "learned": LearnedStatistics,
}


class Process:
    """What became of a forked process."""

    def __init__(self, job: Callable[[Callable[[int], None]], None]) -> None:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            status = 0
            try:
                job(lambda number: os.write(writing, b"%d\n" % number) and None)
            except (StoreError, DownloadError):
                status = 3
            except BaseException:  # noqa: BLE001
                os.write(writing, b"#" + traceback.format_exc().encode())
                status = 4
            os.write(writing, b"@%d %s\n" % (disk.faulty_disk_calls(), disk.faulty_disk_kinds()))
            os._exit(status)
        os.close(writing)
        with open(reading, "rb") as pipe:  # noqa: PTH123
            output = pipe.read()
        _, status = os.waitpid(pid, 0)
        self.status = os.waitstatus_to_exitcode(status)
        self.failure = output.partition(b"#")[2].decode()
        lines = output.partition(b"#")[0].partition(b"@")
        self.numbers = [int(line) for line in lines[0].split()]
        tail = output.rpartition(b"@")[2].split() if b"@" in output else []
        self.n_calls = int(tail[0]) if tail else None
        self.kinds = tail[1].decode() if len(tail) > 1 else ""


def run_matrix(workload: Workload, share: float) -> dict[str, Any]:
    """Run all cases and return counts."""
    folder = workload.folder
    counts: Counter[str] = Counter()
    chosen = random.Random(0)
    verified: set[bytes] = set()
    recovered: set[bytes] = set()

    def left(n_told: int) -> bytes:
        """Return a hash of the files and of how many steps were told."""
        paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        files = [(str(path.relative_to(folder)), path.read_bytes()) for path in paths]
        return hashlib.blake2b(repr((n_told, files)).encode()).digest()

    def restore(source: Path, place: Path = folder) -> None:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(source, place, symlinks=True)

    def armed(nth: int, fault: str, job: Callable[[Callable[[int], None]], None]) -> Process:
        number, n_failures = FAULTS[fault]

        def work(told: Callable[[int], None]) -> None:
            disk.faulty_disk_arm(os.fsencode(folder), nth, n_failures, number)
            job(told)

        return Process(work)

    def recover(told: Callable[[int], None]) -> None:
        told(workload.read())

    def check(case: str, n_told: int, earlier: list[Process]) -> None:
        for process in earlier:
            assert process.status in (0, 3, -9), f"{case}: {process.failure}"
        state = left(n_told)
        if state in verified:
            return
        verified.add(state)
        final = Process(verify)
        assert final.status == 0, f"{case}: {final.failure or final.status}"
        n_there = final.numbers[-1]
        assert n_there in (n_told, n_told + 1), f"{case}: {n_there} steps are there, {n_told} told"

    def verify(told: Callable[[int], None]) -> None:
        disk.faulty_disk_arm(os.fsencode(folder), 1 << 40, 0, 0)
        number = workload.read()
        assert not workload.problems, workload.problems
        workload.check_files()
        told(number)

    folder.mkdir(parents=True)
    original, after = folder.with_name("original"), folder.with_name("after")
    workload.prepare()
    restore(folder, original)
    whole = armed(1 << 40, "EIO", workload.run)
    assert whole.status == 0, (whole.status, whole.failure)
    assert whole.n_calls
    counts.update(whole.kinds)
    for fault in FAULTS:
        for nth in range(1, whole.n_calls + 1):
            if chosen.random() > share:
                continue
            restore(original)
            first = armed(nth, fault, workload.run)
            restore(folder, after)
            counts["cases"] += 1
            where = f"{fault} at call {nth}"
            n_told = max(first.numbers, default=0)
            state = left(n_told)
            check(where, n_told, [first])
            if state in recovered:
                continue
            recovered.add(state)
            counts["different files after a fault"] += 1
            for second_fault in SECOND_FAULTS:
                for second_nth in itertools.count(1):
                    if chosen.random() > share:
                        if second_nth > MOST_RECOVERY_CALLS:
                            break
                        continue
                    restore(after)
                    second = armed(second_nth, second_fault, recover)
                    if second.n_calls is not None and second.n_calls < second_nth:
                        break
                    counts["cases with a second fault"] += 1
                    then = f"{where}, {second_fault} at call {second_nth} of the recovery"
                    check(then, n_told, [first, second])
    return dict(counts)


def main() -> None:
    global disk  # noqa: PLW0603
    disk = ctypes.CDLL(None)
    disk.faulty_disk_arm.argtypes = (ctypes.c_char_p, ctypes.c_long, ctypes.c_long, ctypes.c_int)
    disk.faulty_disk_calls.restype = ctypes.c_long
    disk.faulty_disk_kinds.restype = ctypes.c_char_p
    name, folder, share = sys.argv[1:]
    time.time = lambda: 1.8e9  # type: ignore[assignment]
    workload = WORKLOADS[name](Path(folder).resolve() / "there")
    sys.stdout.write(json.dumps(run_matrix(workload, float(share))))


main()
