import errno
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest
from filelock import FileLock

from speclsp.errors import StoreError
from speclsp.storage.database import BusyError, Database, aside_files_of, files_of, lock_of
from speclsp.storage.locations import WaitLimit, locked

SCHEMA = "CREATE TABLE t (x INTEGER); CREATE INDEX t_x ON t (x)"


@pytest.fixture
def reports():
    return []


@pytest.fixture
def open_database(tmp_path, reports, closed):
    path = tmp_path / "d" / "x.sqlite3"
    return lambda version=1: closed(Database(path, SCHEMA, version, reports.append))


def insert(database: Database, *values: int) -> None:
    database.run(lambda c: c.executemany("INSERT INTO t VALUES (?)", [(v,) for v in values]))


def values(database: Database) -> list[int]:
    rows = database.run(lambda c: c.execute("SELECT x FROM t ORDER BY x").fetchall())
    return [x for (x,) in rows]


def fill_and_close(open_database: Callable[..., Database], n_values: int = 5000) -> Path:
    database = open_database()
    insert(database, *range(n_values))
    database.close()
    return database.path


def test_closing_bounds_all_waits_for_other_processes_together(tmp_path):
    limit, now = WaitLimit(), [100.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("speclsp.storage.locations.time.monotonic", lambda: now[0])
        assert limit.seconds(10.0) == 10.0
        limit.end_in(2.0)
        assert [limit.seconds(10.0), limit.seconds(0.5)] == [2.0, 0.5]
        now[0] += 1.5
        limit.end_in(2.0)  # a second call gives no more
        assert (limit.seconds(10.0), limit.is_over()) == (0.5, False)
        now[0] += 1.0
        assert (limit.seconds(10.0), limit.is_over()) == (0.0, True)


def test_after_the_limit_a_locked_database_and_file_are_tried_once(tmp_path):
    limit = WaitLimit()
    database = Database(tmp_path / "x.sqlite3", SCHEMA, 1, pytest.fail, limit)
    other = sqlite3.connect(database.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    limit.end_in(0.0)
    for _ in range(50):  # each once waited two seconds
        with pytest.raises(BusyError, match="locked"):
            insert(database, 1)
    lock = tmp_path / "lock"
    with FileLock(lock), pytest.raises(TimeoutError), locked(lock, 3600.0, limit):
        pass
    other.execute("ROLLBACK")
    insert(database, 7)
    assert values(database) == [7]
    other.close()
    database.close()


def test_values_stay(open_database):
    fill_and_close(open_database, 3)
    assert values(open_database()) == [0, 1, 2]


@pytest.fixture
def database(open_database):
    return open_database()


def test_all_files_are_private(database):
    def modes(connection):
        connection.execute("INSERT INTO t VALUES (1)")
        return {file.name: stat.S_IMODE(file.stat().st_mode) for file in files_of(database.path)}

    assert database.run(modes) == {"x.sqlite3": 0o600, "x.sqlite3-journal": 0o600}
    assert files_of(database.path) == [database.path]


def test_failed_work_leaves_nothing(database):
    def work(connection):
        connection.execute("INSERT INTO t VALUES (1)")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        database.run(work)
    assert values(database) == []


def damage_header(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 100)


def truncate(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def scramble(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\xa5" * (len(data) - 100))


def quote(path: Path) -> None:
    """Damage what SQLite quotes in its error."""
    data = path.read_bytes().replace(b"tablett", b"table\xfft")
    path.write_bytes(data.replace(b"CREATE TABLE", b"create what!"))


def drop_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE t")


@pytest.mark.parametrize("damage", [damage_header, truncate, scramble, quote, drop_table])
def test_damaged_file_is_set_aside(open_database, reports, damage):
    path = fill_and_close(open_database)
    damage(path)
    damaged = path.read_bytes()
    database = open_database()
    # A truncated file shows only when its missing part is read.
    assert values(database) == []
    insert(database, 7)
    assert values(database) == [7]
    (report,) = reports
    assert "damaged" in str(report)
    assert "set aside" in report.remedy
    aside = aside_files_of(path)[0]
    assert aside.read_bytes()[:1000] == damaged[:1000]


@pytest.mark.parametrize(
    ("damage", "work", "left"),
    [(truncate, Database.compact, []), (scramble, lambda database: insert(database, 7), [7])],
    ids=["when space is returned", "when it is written to"],
)
def test_damage_that_shows_while_it_is_open(open_database, reports, damage, work, left):
    path = fill_and_close(open_database)
    database = open_database()
    damage(path)
    work(database)
    assert values(database) == left
    assert len(reports) == 1


def test_two_servers_find_the_same_damage(open_database, reports):
    path = fill_and_close(open_database)
    first, second = open_database(), open_database()
    scramble(path)
    insert(first, 7)
    insert(second, 8)
    # What the first one learned since is not set aside with the damage that the second one has.
    insert(first, 9)
    assert values(second) == [7, 8, 9]
    assert len(reports) == 1


def test_two_that_find_the_damage_at_once_set_it_aside_once(open_database, reports, monkeypatch):
    monkeypatch.setattr("speclsp.storage.database._BUSY_S", 60.0)
    path = fill_and_close(open_database)
    first, second = open_database(), open_database()
    path.write_bytes(path.read_bytes()[:100] + bytes(range(256)) * 40)
    looked, go_on = threading.Event(), threading.Event()
    file_now = Database._file_now

    def look_and_wait(self):
        found = file_now(self)
        if self is first and not looked.is_set():
            looked.set()
            assert go_on.wait(60)
        return found

    monkeypatch.setattr(Database, "_file_now", look_and_wait)
    slow = threading.Thread(target=insert, args=(first, 1))
    slow.start()
    assert looked.wait(60)
    quick = threading.Thread(target=insert, args=(second, 2))
    quick.start()
    quick.join(0.2)  # would be done by now if it did not wait for its turn
    go_on.set()
    slow.join(60)
    quick.join(60)
    assert values(first) == values(second) == values(open_database()) == [1, 2]
    assert len(reports) == 1


def test_whoever_sets_damage_aside_is_not_waited_for_long(open_database, reports, monkeypatch):
    monkeypatch.setattr("speclsp.storage.database._BUSY_S", 0.01)
    path = fill_and_close(open_database)
    database = open_database()
    path.write_bytes(path.read_bytes()[:100] + bytes(range(256)) * 40)
    with FileLock(lock_of(path)), pytest.raises(BusyError, match="another server"):
        insert(database, 1)
    insert(database, 2)  # later it goes well
    assert values(database) == [2]
    assert len(reports) == 1


NO_LOCKS = [OSError(errno.ENOLCK, ""), OSError(errno.EOPNOTSUPP, ""), NotImplementedError()]


@pytest.mark.parametrize("error", NO_LOCKS, ids=repr)
def test_damage_is_set_aside_without_locks(open_database, reports, monkeypatch, error):
    damage_header(fill_and_close(open_database))
    monkeypatch.setattr(FileLock, "acquire", Mock(side_effect=error))
    database = open_database()
    insert(database, 1)
    assert values(database) == [1]
    assert len(reports) == 1


def test_other_version_is_set_aside(open_database, reports):
    fill_and_close(open_database)
    assert values(open_database(version=2)) == []
    assert "version" in str(reports[0])


def test_empty_file_is_a_new_database(tmp_path, open_database, reports):  # type: ignore[no-untyped-def]
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x.sqlite3").touch()
    insert(open_database(), 1)
    assert reports == []


def test_folder_in_the_place_of_the_file(tmp_path, open_database):  # type: ignore[no-untyped-def]
    (tmp_path / "d" / "x.sqlite3").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"x\.sqlite3"):
        open_database()


def test_read_only_database(reports, database):
    database.run(lambda c: c.execute("PRAGMA query_only = ON"))
    with pytest.raises(StoreError, match="readonly") as caught:
        insert(database, 1)
    assert not isinstance(caught.value, BusyError)
    assert "persist" in caught.value.remedy
    assert reports == []


def test_full_disk(reports, database):
    database.run(lambda c: c.execute("PRAGMA max_page_count = 5").fetchall())
    with pytest.raises(StoreError, match="full"):
        insert(database, *range(100_000))
    assert values(database) == []
    assert reports == []


def test_writer_elsewhere(open_database, monkeypatch):
    monkeypatch.setattr("speclsp.storage.database._BUSY_S", 0.01)
    database = open_database()
    other = sqlite3.connect(database.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(BusyError):
        insert(database, 1)
    assert values(database) == []
    other.execute("COMMIT")
    other.close()
    insert(database, 1)
    assert values(database) == [1]


def journal_mode(database: Database) -> str:
    mode: str = database.run(lambda c: c.execute("PRAGMA journal_mode").fetchone())[0]
    return mode


def test_file_that_another_process_is_just_making(tmp_path, open_database, monkeypatch, reports):
    monkeypatch.setattr("speclsp.storage.database._BUSY_S", 30.0)
    (tmp_path / "d").mkdir()
    other = sqlite3.connect(
        tmp_path / "d" / "x.sqlite3", isolation_level=None, check_same_thread=False
    )
    other.execute("BEGIN IMMEDIATE")
    for statement in (*SCHEMA.split(";"), "PRAGMA user_version = 1", "INSERT INTO t VALUES (7)"):
        other.execute(statement)
    commit = threading.Timer(0.2, other.execute, ["COMMIT"])
    commit.start()
    database = open_database()
    commit.join()
    other.close()
    assert values(database) == [7]
    later = open_database()
    assert journal_mode(later) == "delete"
    insert(database, 8)
    assert values(later) == [7, 8]
    assert reports == []


CUT_WHILE_OPEN = """
import os, sys
from pathlib import Path
from speclsp.storage.accepted_store import AcceptedStore
from speclsp.storage.database import files_of
path = Path(sys.argv[1])
store = AcceptedStore(path)
store.append("/a", "one")
for file in files_of(path)[1:]:
    os.truncate(file, 0)
store.append("/a", "two")
assert [kept.text for kept in store.recent("/a", 10)] == ["one", "two"]
"""


def test_files_beside_the_database_may_be_cut_while_it_is_open(tmp_path):
    command = [sys.executable, "-c", CUT_WHILE_OPEN, str(tmp_path / "d" / "x.sqlite3")]
    assert subprocess.run(command, check=False).returncode == 0


def test_a_database_that_was_removed_while_open_is_made_anew(open_database, reports, database):
    insert(database, 1)
    database.path.unlink()
    insert(database, 2)
    assert values(open_database()) == [2]
    assert reports == []


def test_closed(database):
    database.close()
    database.close()
    with pytest.raises(StoreError, match="closed"):
        values(database)
    with pytest.raises(StoreError, match="closed"):
        database.compact()
