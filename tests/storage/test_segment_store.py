from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from speclsp.drafting.corpus_builder import CorpusBuilder
from speclsp.drafting.protocol import TokenArray
from speclsp.drafting.segment import Segment
from speclsp.drafting.segment_building import build_segment
from speclsp.errors import StoreError
from speclsp.storage.index_contents import KeptFile, path_id
from speclsp.storage.segment_file import read_segment, segment_name, write_segment
from speclsp.storage.segment_store import SegmentStore


def content(number: int) -> bytes:
    return number.to_bytes(16, "big")


def tokens_of(number: int, n_tokens: int = 100) -> TokenArray:
    return np.random.default_rng(number).integers(0, 50, n_tokens).astype(np.int32)


def segment_of(*numbers: int) -> Segment:
    return build_segment([(content(number), tokens_of(number)) for number in numbers])


def kept(number: int) -> KeptFile:
    return KeptFile((number, 2, 3, 4), content(number))


def follows(segment: Segment, number: int) -> list[int]:
    builder = CorpusBuilder()
    builder.adopt([segment])
    assert builder.revive(content(number))
    tokens, _ = builder.snapshot().continuation(tokens_of(number)[:60], 12, 40, 8)
    return tokens.tolist()


@pytest.fixture
def reports() -> list[StoreError]:
    return []


@pytest.fixture
def make_store(tmp_path: Path, reports: list[StoreError]) -> Callable[..., SegmentStore]:
    return lambda **arguments: SegmentStore(tmp_path / "index", report=reports.append, **arguments)


def place_of(tmp_path: Path) -> Path:
    (place,) = (tmp_path / "index").glob("*/*")
    return place


def segment_files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "index").glob("*/*/*.segment"))


class TestFile:
    def test_round_trip(self, tmp_path: Path) -> None:
        segment = segment_of(1, 2, 3)
        write_segment(tmp_path / "s", segment, "f")
        read = read_segment(tmp_path / "s", "f")
        assert list(read.spans.items()) == list(segment.spans.items())
        assert read.n_tokens == 300
        for number in (1, 2, 3):
            assert read.file_tokens(content(number)).tolist() == tokens_of(number).tolist()
            assert follows(read, number) == tokens_of(number)[60:68].tolist()
        assert segment_name(read) == segment_name(segment)

    @pytest.mark.parametrize("files", [[(content(1), [5])], [(content(1), [])], []])
    def test_almost_nothing(self, tmp_path: Path, files: list[tuple[bytes, list[int]]]) -> None:
        segment = build_segment([(key, np.array(ids, np.int32)) for key, ids in files])
        write_segment(tmp_path / "s", segment, "f")
        assert read_segment(tmp_path / "s", "f").spans == segment.spans

    def test_written_files_are_private(self, tmp_path: Path) -> None:
        write_segment(tmp_path / "s", segment_of(1), "f")
        assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600
        assert list(tmp_path.iterdir()) == [tmp_path / "s"]

    @pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9, 0.999])
    def test_every_part_is_checked(self, tmp_path: Path, share: float) -> None:
        path = tmp_path / "s"
        write_segment(path, segment_of(1, 2), "f")
        data = bytearray(path.read_bytes())
        body_idx = 4096 + int((len(data) - 4096) * share)
        for idx in (body_idx, int(52 * share)):
            damaged = bytearray(data)
            damaged[idx] ^= 1
            path.write_bytes(damaged)
            with pytest.raises(StoreError, match=str(path)):
                read_segment(path, "f")

    @pytest.mark.parametrize("n_bytes", [0, 10, 4096, 5000, -1])
    def test_truncated(self, tmp_path: Path, n_bytes: int) -> None:
        path = tmp_path / "s"
        write_segment(path, segment_of(1, 2), "f")
        path.write_bytes(path.read_bytes()[:n_bytes])
        with pytest.raises(StoreError, match=r"truncated|instead of"):
            read_segment(path, "f")

    def test_other_vocabulary(self, tmp_path: Path) -> None:
        write_segment(tmp_path / "s", segment_of(1), "f")
        with pytest.raises(StoreError, match="vocabulary"):
            read_segment(tmp_path / "s", "g")


class TestStore:
    def test_what_was_saved_is_loaded(self, make_store: Callable[..., SegmentStore]) -> None:
        files = {path_id(f"/r/{n}.py"): kept(n) for n in (1, 2, 3)}
        make_store().save("/r", "f", [segment_of(1, 2), segment_of(3)], files)
        loaded = make_store().load("/r", "f")
        assert [list(segment.spans) for segment in loaded.segments] == [
            [content(2), content(1)],
            [content(3)],
        ]
        assert loaded.files == files
        assert follows(loaded.segments[0], 2) == tokens_of(2)[60:68].tolist()

    def test_nothing_of_others(self, make_store: Callable[..., SegmentStore]) -> None:
        make_store().save("/r", "f", [segment_of(1)], {})
        assert not make_store().load("/other", "f").segments
        assert not make_store().load("/r", "g").segments

    def test_saving_again_writes_only_what_is_new(
        self, tmp_path: Path, make_store: Callable[..., SegmentStore]
    ) -> None:
        store, first = make_store(), segment_of(1)
        store.save("/r", "f", [first], {})
        (path,) = segment_files(tmp_path)
        inode = path.stat().st_ino
        store.save("/r", "f", [first, segment_of(2)], {})
        assert path.stat().st_ino == inode
        assert len(segment_files(tmp_path)) == 2

    def test_old_segments_go_when_no_other_server_can_want_them(
        self, tmp_path: Path, make_store: Callable[..., SegmentStore]
    ) -> None:
        store = make_store()
        store.save("/r", "f", [segment_of(1)], {})
        store.save("/r", "f", [segment_of(2)], {})
        assert len(segment_files(tmp_path)) == 2
        for path in segment_files(tmp_path):
            os.utime(path, (1, 1))
        (place_of(tmp_path) / ".partial-x").touch()
        os.utime(place_of(tmp_path) / ".partial-x", (1, 1))
        store.save("/r", "f", [segment_of(3)], {})
        assert [path.stem for path in segment_files(tmp_path)] == [segment_name(segment_of(3))]
        assert {path.name for path in place_of(tmp_path).iterdir()} == {
            "contents",
            f"{segment_name(segment_of(3))}.segment",
        }

    def test_everything_is_private(
        self, tmp_path: Path, make_store: Callable[..., SegmentStore]
    ) -> None:
        make_store().save("/r", "f", [segment_of(1)], {path_id("/r/secret name.py"): kept(1)})
        for path in (tmp_path / "index").rglob("*"):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
            assert path.is_dir() or b"secret name" not in path.read_bytes()

    def test_damaged_segment_is_set_aside_and_the_rest_kept(
        self, tmp_path: Path, make_store: Callable[..., SegmentStore], reports: list[StoreError]
    ) -> None:
        store, bad, good = make_store(), segment_of(1), segment_of(2)
        store.save("/r", "f", [bad, good], {})
        path = place_of(tmp_path) / f"{segment_name(bad)}.segment"
        path.write_bytes(path.read_bytes()[:-1] + b"x")
        loaded = make_store().load("/r", "f")
        assert [list(segment.spans) for segment in loaded.segments] == [[content(2)]]
        assert "checksum" in reports[0].message
        assert path.with_name(path.name + ".damaged").exists()
        make_store().save("/r", "f", [bad, good], {})
        assert len(make_store().load("/r", "f").segments) == 2
        assert len(reports) == 1

    def test_missing_segment_is_nothing_to_report(
        self, tmp_path: Path, make_store: Callable[..., SegmentStore], reports: list[StoreError]
    ) -> None:
        make_store().save("/r", "f", [segment_of(1), segment_of(2)], {})
        segment_files(tmp_path)[0].unlink()
        assert len(make_store().load("/r", "f").segments) == 1
        assert reports == []

    @pytest.mark.parametrize("damage", [b"", b"nonsense" * 9, None])
    def test_damaged_table_of_contents(
        self,
        tmp_path: Path,
        make_store: Callable[..., SegmentStore],
        reports: list[StoreError],
        damage: bytes | None,
    ) -> None:
        make_store().save("/r", "f", [segment_of(1)], {path_id("/r/1"): kept(1)})
        path = place_of(tmp_path) / "contents"
        path.write_bytes(path.read_bytes()[:-3] + b"abc" if damage is None else damage)
        loaded = make_store().load("/r", "f")
        assert (loaded.segments, loaded.files) == ((), {})
        assert len(reports) == 1
        make_store().save("/r", "f", [segment_of(1)], {})
        assert len(make_store().load("/r", "f").segments) == 1

    def test_folder_that_cannot_be_written(
        self, tmp_path: Path, make_store: Callable[..., SegmentStore]
    ) -> None:
        (tmp_path / "index").write_text("in the way")
        with pytest.raises(StoreError, match="cannot be written"):
            make_store().save("/r", "f", [segment_of(1)], {})

    def test_longest_unused_workspaces_go_first(
        self, tmp_path: Path, make_store: Callable[..., SegmentStore]
    ) -> None:
        size = 0
        for idx, root in enumerate(("/a", "/b", "/c")):
            make_store().save(root, "f", [segment_of(1)], {})
            size = size or make_store().n_bytes
            place = make_store()._place(root, "f")
            os.utime(place / "contents", (100 + idx, 100 + idx))
        make_store().load("/a", "f")
        make_store(max_bytes=3 * size + 10).save("/d", "f", [segment_of(1)], {})
        found = [bool(make_store().load(root, "f").segments) for root in ("/a", "/b", "/c", "/d")]
        assert found == [True, False, True, True]

    def test_more_than_may_be_kept_at_all(
        self, tmp_path: Path, make_store: Callable[..., SegmentStore]
    ) -> None:
        make_store(max_bytes=100).save("/r", "f", [segment_of(1)], {})
        assert make_store().n_bytes == 0

    def test_uses_and_forget(self, tmp_path: Path, make_store: Callable[..., SegmentStore]) -> None:
        store = make_store()
        assert store.uses() == []
        store.save(str(tmp_path), "f", [segment_of(1, 2)], {path_id("/r/1"): kept(1)})
        store.save(str(tmp_path), "g", [segment_of(1)], {path_id("/r/1"): kept(1)})
        store.save("/r", "f", [segment_of(3)], {})
        first, second = store.uses()
        assert (first.n_files, first.n_tokens, second.n_files, second.n_tokens) == (2, 300, 0, 100)
        assert first.n_bytes + second.n_bytes == store.n_bytes
        assert store.forget(first.workspace) == 2
        assert store.uses() == [second]
        assert store.forget_all() == 1
        assert store.uses() == []
        assert not (tmp_path / "index").exists()


_WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_segment_store import SegmentStore, kept, path_id, segment_of
reports = []
store = SegmentStore(Path(sys.argv[1]), report=reports.append)
first = int(sys.argv[2])
shared = segment_of(1000)
for number in range(first, first + 30):
    files = {path_id(f"/r/{number}"): kept(number)}
    store.save("/r", "f", [shared, segment_of(number)], files)
    loaded = store.load("/r", "f")
    assert len(loaded.segments) == 2, loaded
    assert len(loaded.files) == 1
assert not reports, reports
"""


def test_several_processes_at_once(
    tmp_path: Path, make_store: Callable[..., SegmentStore], reports: list[StoreError]
) -> None:
    here = str(Path(__file__).parent)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(tmp_path / "index"), str(first), here],
            stderr=subprocess.PIPE,
        )
        for first in (0, 100)
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=600)
        assert (writer.returncode, errors) == (0, b"")
    loaded = make_store().load("/r", "f")
    assert list(loaded.segments[0].spans) == [content(1000)]
    assert next(iter(loaded.segments[1].spans)) in {content(29), content(129)}
    assert reports == []


def test_user_store_lies_in_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    SegmentStore.open().save("/r", "f", [segment_of(1)], {})
    assert (tmp_path / "speclsp" / "index").is_dir()
