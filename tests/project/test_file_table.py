from speclsp.project.file_table import FileRecord, FileTable
from speclsp.project.scan import Signature


def record(content: bytes | None, n_bytes: int = 1) -> FileRecord:
    return FileRecord(Signature(n_bytes, 1, 1, 1), content)


def test_content_is_orphaned_with_its_last_file() -> None:
    table = FileTable()
    assert table.put("/r", "/r/a", record(b"1")) is None
    assert table.put("/r", "/r/b", record(b"1")) is None
    assert table.remove("/r", "/r/a") is None
    assert table.remove("/r", "/r/b") == b"1"
    assert table.remove("/r", "/r/b") is None


def test_changed_file_orphans_its_former_content() -> None:
    table = FileTable()
    table.put("/r", "/r/a", record(b"1"))
    assert table.put("/r", "/r/a", record(b"1", n_bytes=2)) is None
    assert table.put("/r", "/r/a", record(b"2")) == b"1"
    assert table.put("/r", "/r/a", record(None)) == b"2"
    assert (table.n_files, table.n_skipped) == (0, 1)


def test_overlapping_folders_share_content() -> None:
    table = FileTable()
    table.put("/r", "/r/s/a", record(b"1"))
    table.put("/r/s", "/r/s/a", record(b"1"))
    assert table.n_files == 1
    assert table.remove("/r", "/r/s/a") is None
    assert table.remove("/r/s", "/r/s/a") == b"1"


def test_held_only_by() -> None:
    table = FileTable()
    table.put("/r", "/r/a", record(b"1"))
    table.put("/r", "/r/copy", record(b"1"))
    table.put("/r", "/r/b", record(b"2"))
    table.put("/r", "/r/binary", record(None))
    everything = {"/r/a", "/r/copy", "/r/b", "/r/binary", "/elsewhere"}
    assert table.held_only_by({"/r/a", "/r/b", "/r/binary", "/elsewhere"}) == {b"2"}
    assert table.held_only_by(everything) == {b"1", b"2"}
    assert table.held_only_by(()) == set()


def test_paths_below() -> None:
    table = FileTable()
    for path in ("/r/a/x", "/r/a/b/y", "/r/ab", "/r/a"):
        table.put("/r", path, record(path.encode()))
    assert table.paths_below("/r", "/r/a") == ["/r/a/x", "/r/a/b/y"]
    assert len(table.paths("/r")) == 4
    assert table.paths("/other") == []
