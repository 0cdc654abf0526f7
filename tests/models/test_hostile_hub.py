"""A hub that means harm, be it a mirror or whoever answers as it, against ``models pull``."""

import hashlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from forked_speclsp import run_speclsp
from hostile_hub import MODEL, REPOSITORY, TABLE, Behaviour, World, listed, listing, sent
from scripted_http import Request, response, scripted_server

from speclsp.cli.main import main
from speclsp.models import cache, client, download
from speclsp.models.references import parse_reference

Pull = Callable[..., int]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A home folder with what an attacker would like to change."""
    home = tmp_path / "users" / "home"
    for name in (".bashrc", ".ssh/authorized_keys", "lib/site-packages/a.pth", "code/main.py"):
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine\n")
    found = World(home, home / ".cache" / "huggingface" / "hub")
    found.cache.mkdir(parents=True)
    return found


@pytest.fixture
def pull(world: World, monkeypatch: pytest.MonkeyPatch) -> Pull:
    """Run ``speclsp models pull`` in the home folder; returns the exit status."""
    constants = cache.hub_constants()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(world.cache))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(world.home / "token"))
    monkeypatch.setenv("HOME", str(world.home))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.chdir(world.home)
    monkeypatch.setattr(download, "_RETRY_PAUSE_S", 0.0)
    monkeypatch.setattr(download, "_N_RETRIES", 1)

    def run(behaviour: Behaviour) -> int:
        if behaviour.is_slow:  # a test waits for a fraction of what users would
            monkeypatch.setattr(client, "_ANSWER_S", 0.4)
            monkeypatch.setattr(download, "_PACE_S", 0.4)
        with scripted_server(lambda request: behaviour.answer(world, request)) as server:
            url = server.url.replace("localhost", "127.0.0.1")
            monkeypatch.setattr(constants, "ENDPOINT", url)
            template = url + "/{repo_id}/resolve/{revision}/{filename}"
            monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
            monkeypatch.setattr(sys, "argv", ["speclsp", "models", "pull", REPOSITORY])
            with pytest.raises(SystemExit) as ended:
                main()
        assert isinstance(ended.value.code, int)
        return ended.value.code

    return run


def tree(root: Path, without: Path) -> dict[str, tuple[int, float, bytes | str]]:
    """Return all that is below a folder: mode, time of change and content of each path."""
    found: dict[str, tuple[int, float, bytes | str]] = {}
    for folder, folders, files in os.walk(root):
        if Path(folder) == without:
            folders.clear()
            continue
        for path in (Path(folder, name) for name in (*folders, *files)):
            status = path.lstat()
            content: bytes | str = ""
            if path.is_symlink():
                content = str(path.readlink())
            elif path.is_file():
                content = path.read_bytes()
            is_folder = path.is_dir() and not path.is_symlink()
            found[str(path)] = (status.st_mode, 0.0 if is_folder else status.st_mtime, content)
    return found


def check_cache(world: World, before: set[Path]) -> None:
    """Check that each name in the cache is one of its layout, and leads to verified bytes."""
    for path in world.cache.rglob("*"):
        if path.is_dir() or path in before:
            continue
        top, kind, *rest = path.relative_to(world.cache).parts
        assert top == world.folder.name
        if kind == "refs":
            assert rest == ["main"]
            assert cache.is_commit(path.read_text())
        elif kind == "snapshots":
            assert cache.is_commit(rest[0])
            assert path.resolve().parent == world.folder / "blobs"
            assert path.read_bytes() == MODEL
        else:
            assert kind == "blobs"
            (name,) = rest
            digest, _, partial = name.partition(".")
            assert re.fullmatch(r"([0-9a-f]{16}\.speclsp\.incomplete)?", partial)
            assert len(digest) == 64
            assert partial or hashlib.sha256(path.read_bytes()).hexdigest() == digest


def check_messages(printed: str) -> None:
    """Check that there is one error, on one line, with a remedy, that controls no terminal."""
    assert printed.replace("\n", "").isprintable()
    (error,) = [line for line in printed.splitlines() if not line.startswith("Downloading ")]
    assert error.startswith("Error: ")
    assert error.endswith(".")
    assert error.count(". ") >= 1, "there is a remedy"
    assert len(error) < 1000


def test_the_table_is_long():
    assert len({behaviour.name for behaviour in TABLE}) == len(TABLE) >= 100


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", TABLE, ids=lambda behaviour: behaviour.name)
def test_nothing_unverified_is_used_and_nothing_else_is_touched(behaviour, world, pull, capsys):
    if behaviour.prepare is not None:
        behaviour.prepare(world)
    before = {path for path in world.cache.rglob("*") if not path.is_dir()}
    outside = tree(world.home.parent, world.cache)
    status = pull(behaviour)
    printed = capsys.readouterr()
    assert tree(world.home.parent, world.cache) == outside
    paths = cache.cached_paths(parse_reference(REPOSITORY))
    if behaviour.says:
        check_cache(world, before)
        check_messages(printed.err)
        assert status == 1
        assert paths is None
        assert behaviour.says in printed.err
        assert printed.out == ""
    else:
        check_cache(world, set())
        assert status == 0, printed.err
        assert paths is not None
        (path,) = paths
        assert path.read_bytes() == MODEL
        assert printed.out == f"{path}\n"


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("ETag climbs to a new file", 0),
        ("sha256 climbs to a new folder", 1),
        ("file name controls the terminal", 1),
    ],
)
def test_the_command_in_a_process_of_its_own(name, status, world):
    (behaviour,) = (behaviour for behaviour in TABLE if behaviour.name == name)
    outside = tree(world.home.parent, world.cache)
    given = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "XDG_"))}
    with scripted_server(lambda request: behaviour.answer(world, request)) as server:
        environment = {**given, "HOME": str(world.home), "HF_ENDPOINT": server.url}
        run = run_speclsp("models", "pull", REPOSITORY, environment=environment, folder=world.home)
    assert run.returncode == status, run.stderr
    assert tree(world.home.parent, world.cache) == outside
    check_cache(world, set())
    if status:
        check_messages(run.stderr.decode())
        assert behaviour.says in run.stderr.decode()
    else:
        assert Path(run.stdout.decode().strip()).read_bytes() == MODEL


@pytest.mark.parametrize(
    ("variable", "says"),
    [
        ("HF_ENDPOINT=http://[", "wrong value"),
        ("HF_ENDPOINT=nowhere", "cannot be reached"),
        ("HF_ENDPOINT=http://127.0.0.1:9", "HF_ENDPOINT names a mirror."),
        ("HF_ENDPOINT=http://me:hidden@127.0.0.1:1", "mirror 127.0.0.1 cannot be reached"),
        ("HTTP_PROXY=garbage://x", "proxy"),
        ("HF_TOKEN_PATH=/", "token cannot be read"),
    ],
)
def test_what_the_environment_says_wrongly(variable, says, world):
    name, _, value = variable.partition("=")
    usual = {"HOME": str(world.home), "HF_ENDPOINT": "http://127.0.0.1:1"}
    environment = {**os.environ, **usual, name: value}
    run = run_speclsp("models", "pull", REPOSITORY, environment=environment)
    assert run.returncode == 1
    check_messages(run.stderr.decode())
    assert says in run.stderr.decode()
    assert b"hidden" not in run.stderr
    assert b"is kept" not in run.stderr, "nothing was received"


def test_a_version_is_used_once_all_of_it_is_there(world, pull, monkeypatch):
    honest = Behaviour("honest", "")
    assert pull(honest) == 0
    former = cache.cached_paths(parse_reference(REPOSITORY))
    parts = [
        listed(f"m-q4_k_m-0000{n}-of-00002.gguf", digit * 64) for n, digit in ((1, "a"), (2, "b"))
    ]
    parts[0]["lfs"]["sha256"] = hashlib.sha256(MODEL).hexdigest()
    newer = Behaviour("newer", "", lambda _: [response(200, listing(*parts, sha="d" * 40))])
    assert pull(newer) == 1
    assert cache.cached_paths(parse_reference(REPOSITORY)) == former
    parts[1]["lfs"]["sha256"] = hashlib.sha256(MODEL).hexdigest()
    assert pull(newer) == 0
    paths = cache.cached_paths(parse_reference(REPOSITORY))
    assert paths is not None
    assert [path.name for path in paths] == [part["rfilename"] for part in parts]


def test_the_token_stays_with_the_hub(world, pull, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    with scripted_server(lambda request: [sent(request)]) as other:
        found: list[str] = []

        def elsewhere(request: Request) -> list[bytes]:
            found.append(request.headers.get("authorization", ""))
            return [response(302, b"", f"Location: {other.url}/file")]

        assert pull(Behaviour("redirects", "", file=elsewhere)) == 0
    assert found == ["Bearer hf_secret"]
    assert ["authorization" in request.headers for request in other.requests] == [False]
