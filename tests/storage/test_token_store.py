import hashlib
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from speclsp.errors import StoreError
from speclsp.storage.locations import workspace_id
from speclsp.storage.token_store import TokenStore

MakeStore = Callable[..., TokenStore]


@pytest.fixture
def make_store(tmp_path, closed):
    return lambda **arguments: closed(TokenStore(tmp_path / "t.sqlite3", **arguments))


def content(number: int) -> bytes:
    return hashlib.blake2b(bytes([number]), digest_size=16).digest()


def tokens(number: int, n_tokens: int = 100) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 2**20, n_tokens).astype(np.int32)


def put(store: TokenStore, *numbers: int, root: str = "/r", fingerprint: str = "f") -> None:
    for number in numbers:
        store.put(root, fingerprint, content(number), tokens(number))
    store.flush()


def kept(store: TokenStore, n_numbers: int, fingerprint: str = "f") -> list[int]:
    return [n for n in range(n_numbers) if store.get(fingerprint, content(n)) is not None]


@pytest.fixture
def store(make_store):
    return make_store()


def test_tokens_come_back(make_store, store):
    store.put("/r", "f", content(1), tokens(1))
    store.put("/r", "f", content(2), np.zeros(0, np.int32))
    for reader in (store, make_store()):
        store.flush()
        found = reader.get("f", content(1))
        assert found is not None
        assert found.dtype == np.int32
        assert found.tolist() == tokens(1).tolist()
        empty = reader.get("f", content(2))
        assert empty is not None
        assert empty.size == 0
        assert reader.get("f", content(3)) is None


def test_vocabularies_are_kept_apart(store):
    store.put("/r", "f", content(1), tokens(1))
    store.put("/r", "g", content(1), tokens(2))
    store.flush()
    assert store.get("f", content(1)).tolist() == tokens(1).tolist()  # type: ignore[union-attr]
    assert store.get("g", content(1)).tolist() == tokens(2).tolist()  # type: ignore[union-attr]
    assert store.get("h", content(1)) is None


def test_closing_writes_what_was_put(make_store, store):
    store.put("/r", "f", content(1), tokens(1))
    store.close()
    store.close()
    assert kept(make_store(), 3) == [1]
    with pytest.raises(StoreError):
        store.get("f", content(1))


def test_the_longest_unused_go_first(make_store):
    day = [1.0]
    store = make_store(max_bytes=2000, clock=lambda: day[0] * 86_400)
    put(store, 0, 1, 2)
    day[0] = 2.0
    put(store, 3, 4)
    store.note_use("/r", "f", [content(0), content(3), content(4)])
    day[0] = 3.0
    for number in range(5, 9):
        put(store, number)
    found = kept(store, 9)
    assert set(found) & {1, 2} == set()
    assert {7, 8} <= set(found)
    n_bytes = sum(use.n_bytes for use in store.uses())
    assert 1000 < n_bytes <= 2000


def test_uses_by_workspace(store):
    put(store, 1, 2, root="/a")
    put(store, 3, root="/b")
    store.note_use("/b", "f", [content(2), content(3), content(99)])
    uses = {use.workspace: use for use in store.uses()}
    assert set(uses) == {workspace_id("/a"), workspace_id("/b")}
    assert uses[workspace_id("/a")].n_items == 2
    assert uses[workspace_id("/b")].n_items == 2
    assert uses[workspace_id("/b")].n_tokens == 200
    assert uses[workspace_id("/b")].n_bytes > 0
    store.note_use("/a", "f", [content(2)])
    assert {use.workspace: use.n_items for use in store.uses()}[None] == 1


def test_forget_one_workspace(store):
    put(store, 1, 2, root="/a")
    put(store, 3, root="/b")
    store.note_use("/b", "f", [content(2), content(3)])
    assert store.forget(workspace_id("/a")) == 1
    assert kept(store, 5) == [2, 3]
    assert [use.workspace for use in store.uses()] == [workspace_id("/b")]
    assert store.forget(workspace_id("/never")) == 0


def test_forget_all_leaves_no_trace_on_disk(tmp_path, store):
    put(store, *range(50))
    assert store.forget_all() == 50
    assert store.uses() == []
    assert kept(store, 50) == []
    data = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert not any(content(number) in data for number in range(1, 50))
    put(store, 1)
    assert kept(store, 5) == [1]


def test_damaged_tokens_are_not_returned(store):
    put(store, 1, 2, 3)
    store.run(
        lambda c: (
            c.execute("UPDATE tokens SET compressed = x'00' WHERE id = 1").rowcount
            + c.execute("UPDATE tokens SET n_tokens = 5 WHERE id = 2").rowcount
        )
    )
    assert kept(store, 5) == [3]


def test_busy_writer_delays_and_loses_nothing(make_store, monkeypatch):
    monkeypatch.setattr("speclsp.storage.database._BUSY_S", 0.01)
    store, other = make_store(), make_store()
    other.run(lambda c: c.execute("BEGIN IMMEDIATE") and store_while_locked(store))
    put(store, 2)
    store.note_use("/r", "f", [content(1), content(2)])
    assert kept(other, 5) == [1, 2]


def store_while_locked(store: TokenStore) -> None:
    put(store, 1)
    store.note_use("/r", "f", [content(1)])
    assert kept(store, 5) == [1]


WRITER = """
import hashlib
import sys
from pathlib import Path
import numpy as np
from speclsp.storage.accepted_store import AcceptedStore
from speclsp.storage.token_store import TokenStore
from speclsp.storage import database
# On a busy machine one may hold the others up for long.
database._BUSY_S = 60.0
folder, first = Path(sys.argv[1]), int(sys.argv[2])
def fail(error):
    raise error
tokens = TokenStore(folder / "t.sqlite3", report=fail)
accepted = AcceptedStore(folder / "a.sqlite3", report=fail)
for number in range(first, first + 60):
    content = hashlib.blake2b(bytes([number]), digest_size=16).digest()
    tokens.put("/r", "f", content, np.full(5000, number, np.int32))
    tokens.flush()
    accepted.append("/r", str(number))
tokens.close()
accepted.close()
"""


def test_several_processes_write_at_once(make_store, tmp_path):
    from speclsp.storage.accepted_store import AcceptedStore

    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(first)], stderr=subprocess.PIPE
        )
        for first in (0, 60, 120)
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=600)
        assert (writer.returncode, errors) == (0, b"")
    store = make_store()
    for number in range(180):
        found = store.get("f", content(number))
        assert found is not None
        assert found.tolist() == [number] * 5000
    accepted = AcceptedStore(tmp_path / "a.sqlite3")
    assert sorted(int(kept.text) for kept in accepted.recent("/r", 1000)) == list(range(180))
    accepted.close()


def test_user_store_lies_in_the_cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    TokenStore.open().close()
    assert (tmp_path / "speclsp" / "tokens.sqlite3").exists()
