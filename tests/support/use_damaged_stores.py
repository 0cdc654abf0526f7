"""Uses damaged stores: ``use_damaged_stores.py STORE FOLDER N_CASES SEED``.

A case damages one store in one to three places: bytes of the file and its pages, values and schema
by SQL, or files beside it.  Then the store is opened, read, written, and opened again.
Prints counts as JSON; ends at the first case in which anything but a report comes of it.
"""

import json
import random
import shutil
import signal
import sqlite3
import struct
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
from damaged_bytes import damaged

from speclsp.errors import StoreError
from speclsp.storage.accepted_store import AcceptedStore
from speclsp.storage.locations import workspace_id
from speclsp.storage.token_store import TokenStore

PAGE = 4096
TIMEOUT_S = 60
STORES: dict[str, Any] = {"accepted": AcceptedStore, "tokens": TokenStore}
NUMBERS = (0, 1, 2, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
VALUES = (
    None, -1, 0, 2**31, 2**63 - 1, -(2**63), 1.5, float("inf"), "", "text", "\0", b"", b"\xff" * 7,
    b"\0" * 4096,
)  # fmt: skip
JOURNAL_MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
WAL_MAGIC = b"\x37\x7f\x06\x82"


def fill(store: Any) -> None:
    """Write some rows of two workspaces."""
    for root in ("/a", "/b"):
        if isinstance(store, AcceptedStore):
            for number in range(40):
                store.append(root, f"text {number} " * number)
        else:
            for number in range(30):
                tokens = np.arange(number * 20, dtype=np.int32)
                store.put(root, "f", bytes([number]) * 16, tokens)
            store.flush()


def use(store: Any) -> None:
    """Read all, write, list and forget, as the server and the command line do."""
    for root in ("/a", "/b"):
        if isinstance(store, AcceptedStore):
            for text, n_before, _ in store.recent(root, 100):
                assert isinstance(text[:n_before], str)
            store.append(root, "new")
        else:
            for number in range(30):
                tokens = store.get("f", bytes([number]) * 16)
                assert tokens is None or tokens.dtype == np.int32
            store.put(root, "f", b"n" * 16, np.arange(10, dtype=np.int32))
            store.flush()
            store.note_use(root, "f", [bytes([1]) * 16, b"n" * 16])
    for workspace_use in store.uses():
        assert workspace_use.workspace is None or isinstance(workspace_use.workspace, bytes)
    store.forget(workspace_id("/b"))


def is_whole(store: Any) -> bool:
    """Whether the store takes and gives what it is given now."""
    if isinstance(store, AcceptedStore):
        store.append("/c", "kept", 2)
        return store.recent("/c", 1) == [("kept", 2, "")]
    store.put("/c", "f", b"k" * 16, np.arange(5, dtype=np.int32))
    store.flush()
    kept = store.get("f", b"k" * 16)
    return kept is not None and kept.tolist() == [0, 1, 2, 3, 4]


# --- damages ------------------------------------------------------------------------------------


def change_header(path: Path, dice: random.Random) -> None:
    at = dice.choice([0, 16, 18, 19, 20, 21, 22, 23, *range(24, 100, 4)])
    _overwrite(path, at, _number(dice))


def change_page(path: Path, dice: random.Random) -> None:
    """A b-tree page's header or cell pointers."""
    page = dice.randrange(max(1, path.stat().st_size // PAGE))
    _overwrite(path, page * PAGE + 100 * (page == 0) + dice.randrange(40), _number(dice))


def change_bytes(path: Path, dice: random.Random) -> None:
    path.write_bytes(damaged(path.read_bytes(), dice))


def copy_page(path: Path, dice: random.Random) -> None:
    data = path.read_bytes()
    source, place = (PAGE * dice.randrange(len(data) // PAGE) for _ in range(2))
    _overwrite(path, place, data[source : source + PAGE])


def wipe_page(path: Path, dice: random.Random) -> None:
    _overwrite(path, PAGE * dice.randrange(path.stat().st_size // PAGE), bytes(PAGE))


def put_journal(path: Path, dice: random.Random) -> None:
    """A journal or write-ahead log of another database, or of none."""
    ending, magic = dice.choice([("-journal", JOURNAL_MAGIC), ("-wal", WAL_MAGIC), ("-shm", b"")])
    header = b"".join(struct.pack(">I", dice.choice(NUMBERS)) for _ in range(8))
    data = path.read_bytes()
    body = dice.choice([b"", dice.randbytes(3 * PAGE), struct.pack(">I", 1) + data[:PAGE]])
    Path(f"{path}{ending}").write_bytes(dice.choice([magic, b""]) + header.ljust(504, b"\0") + body)


def change_value(path: Path, dice: random.Random) -> None:
    with closing(sqlite3.connect(path)) as connection:
        (table,) = dice.choice(connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        ).fetchall())  # fmt: skip
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        column, share = dice.choice(columns), dice.choice([1, 2, 7])
        with connection:
            connection.execute(
                f"UPDATE OR IGNORE {table} SET {column} = ? WHERE abs(random()) % ? = 0",
                (dice.choice(VALUES), share),
            )


def change_schema(path: Path, dice: random.Random) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        objects = connection.execute("SELECT type, name, tbl_name FROM sqlite_schema").fetchall()
        kind, name, table = dice.choice(objects)
        column = dice.choice(connection.execute(f"PRAGMA table_info({table})").fetchall())[1]
        connection.execute(
            dice.choice(
                [
                    f"DROP {kind} {name}",
                    f"ALTER TABLE {table} RENAME TO other",
                    f"ALTER TABLE {table} RENAME COLUMN {column} TO other",
                    f"ALTER TABLE {table} DROP COLUMN {column}",
                    f"CREATE TRIGGER other INSERT ON {table} BEGIN SELECT nothing(1); END",
                    f"CREATE UNIQUE INDEX other ON {table} ({column})",
                    f"PRAGMA user_version = {dice.choice([0, -1, 2, 2**31 - 1])}",
                    "PRAGMA application_id = 7",
                    "PRAGMA encoding = 'UTF-16'",
                ]
            )
        )


def _overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def _number(dice: random.Random) -> bytes:
    return dice.choice(NUMBERS).to_bytes(4, "big")[-dice.choice([1, 2, 4]) :]


DAMAGES: list[Callable[[Path, random.Random], None]] = [
    change_header, change_page, change_bytes, copy_page, wipe_page, put_journal, change_value,
    change_schema,
]  # fmt: skip


def main() -> None:
    kind, folder, n_cases, seed = sys.argv[1:]
    shutil.rmtree(folder, ignore_errors=True)
    path = Path(folder) / "store.sqlite3"
    with closing(STORES[kind](path)) as store:
        fill(store)
    whole = path.read_bytes()
    counts: Counter[str] = Counter()
    for number in range(int(n_cases)):
        shutil.rmtree(folder)
        path.parent.mkdir()
        path.write_bytes(whole)
        dice = random.Random(f"{seed} {number}")
        damages = dice.choices(DAMAGES, k=dice.choice([1, 1, 2, 3]))
        for damage in damages:
            # After another damage SQL or a page may be impossible.
            with suppress(sqlite3.Error, ValueError, IndexError):
                damage(path, dice)
        names = " and ".join(damage.__name__ for damage in damages)
        signal.alarm(TIMEOUT_S)
        reports: list[StoreError] = []
        try:
            with closing(STORES[kind](path, report=reports.append)) as store:
                use(store)
            with closing(STORES[kind](path, report=reports.append)) as store:
                assert is_whole(store)
        except StoreError as error:
            # A row of the largest id that there can be, and a header of a future format.
            if not any(words in str(error) for words in ("disk is full", "readonly database")):
                sys.stderr.write(f"case {number} of seed {seed}: {names}\n")
                raise
            counts["refused"] += 1
            continue
        except BaseException:
            sys.stderr.write(f"case {number} of seed {seed}: {names}; reports: {reports}\n")
            raise
        signal.alarm(0)
        assert all("set aside" in report.remedy for report in reports), reports
        assert len(reports) <= 1, (number, names, reports)
        counts["set aside" if reports else "read"] += 1
    sys.stdout.write(json.dumps(counts))


main()
