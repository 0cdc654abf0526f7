"""Downloads from a hub on loopback: what goes wrong is told once, and nothing half is used."""

import errno
import os
import shutil
import threading
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner
from fake_hub import FakeHub

from speclsp.cli.models import models
from speclsp.errors import (
    DownloadCancelledError,
    DownloadError,
    ModelError,
    ModelNotFoundError,
    SpecLspError,
)
from speclsp.models import cache, download
from speclsp.models.references import Reference, parse_reference

REPOSITORY = "owner/Coder-7B-GGUF"
MEBIBYTE = 1 << 20
Q4 = b"GGUF" + bytes(range(252)) + bytes(range(256)) * (12 * 1024 - 1)  # 3 MiB
Q8 = b"GGUF" + b"q8" * 1000


@pytest.fixture(autouse=True)
def _repository(hub: FakeHub) -> None:
    hub.repositories[REPOSITORY] = {
        "README.md": b"a model",
        "coder-7b-q8_0.gguf": Q8,
        "coder-7b-q4_k_m.gguf": Q4,
        "mmproj-coder-7b-q4_k_m.gguf": b"for pictures",
    }


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_RETRY_PAUSE_S", 0.0)


def pull(text: str, **options: Any) -> tuple[Path, ...]:
    reference = parse_reference(text)
    download.pull(download.plan([reference]), **options)
    found = cache.cached_paths(reference)
    assert found is not None
    return found


def refusal(text: str, **options: Any) -> SpecLspError:
    with pytest.raises(SpecLspError) as caught:
        pull(text, **options)
    assert cache.cached_paths(parse_reference(text)) is None, "nothing half-written is used"
    assert caught.value.remedy
    return caught.value


def test_a_file_comes_once_and_lies_where_other_programs_look(hub, tmp_path):
    import huggingface_hub

    (path,) = pull(REPOSITORY)
    assert path.name == "coder-7b-q4_k_m.gguf"
    assert path.read_bytes() == Q4
    theirs = huggingface_hub.hf_hub_download(REPOSITORY, path.name)
    assert Path(theirs) == path
    assert len(hub.ranges()) == 1
    hub_was_asked = [*hub.asked]
    before = {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert cache.cached_paths(parse_reference(f"{REPOSITORY}:Q4_K_M")) == (path,)
    assert cache.cached_paths(parse_reference(f"{REPOSITORY}:Q8_0")) is None
    assert hub.asked == hub_was_asked
    pull(REPOSITORY)
    assert len(hub.ranges()) == 1, "a cached file is not sent again"
    assert {path: path.lstat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    left = {p.name for p in tmp_path.rglob("*") if p.is_file() and not p.is_symlink()}
    assert not [name for name in left if "incomplete" in name or "speclsp" in name]
    known = ("/api/models/", f"/{REPOSITORY}/resolve/")
    assert all(asked[1].startswith(known) for asked in hub.asked), "no telemetry"


def test_what_another_program_downloaded_is_used(hub):
    import huggingface_hub

    huggingface_hub.hf_hub_download(REPOSITORY, "coder-7b-q4_k_m.gguf")
    n_before = len(hub.ranges())
    assert download.plan([parse_reference(REPOSITORY)]).missing_bytes == 0
    pull(REPOSITORY)
    assert len(hub.ranges()) == n_before


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (REPOSITORY, "coder-7b-q4_k_m.gguf"),
        (f"{REPOSITORY}:Q8_0", "coder-7b-q8_0.gguf"),
        (f"{REPOSITORY}:q4_k_m", "coder-7b-q4_k_m.gguf"),
        (f"{REPOSITORY}:coder-7b-q8_0.gguf", "coder-7b-q8_0.gguf"),
    ],
)
def test_a_quantization_is_chosen_as_llama_cpp_does(text, name):
    (path,) = pull(text)
    assert path.name == name


def test_all_parts_of_a_split_model_come(hub):
    parts = {
        f"deep/coder-q8_0-0000{n}-of-00003.gguf": b"GGUF" + bytes([n]) * 100 for n in (1, 2, 3)
    }
    hub.repositories["owner/split"] = dict(reversed(parts.items()))
    paths = pull("owner/split:Q8_0")
    assert [path.read_bytes() for path in paths] == list(parts.values())
    assert len({path.parent for path in paths}) == 1, "llama.cpp finds the others beside the first"
    paths[1].unlink()
    assert cache.cached_paths(parse_reference("owner/split")) is None
    del hub.repositories["owner/split"]["deep/coder-q8_0-00002-of-00003.gguf"]
    assert "2 of the 3 parts" in refusal("owner/split").message


def test_a_broken_connection_is_continued_where_it_broke(hub):
    hub.cuts = [MEBIBYTE, MEBIBYTE]
    (path,) = pull(REPOSITORY)
    assert path.read_bytes() == Q4
    assert hub.ranges() == ["bytes=0-", f"bytes={MEBIBYTE}-", f"bytes={2 * MEBIBYTE}-"]


def test_the_next_download_goes_on_where_one_was_given_up(hub, monkeypatch):
    hub.cuts = [2 * MEBIBYTE, *[0] * 10]
    error = refusal(REPOSITORY)
    assert "was lost" in error.message
    assert "received part is kept" in error.remedy
    assert "resumes the download" in error.remedy
    ours, other = (Reference(REPOSITORY, file=f"coder-7b-{q}.gguf") for q in ("q4_k_m", "q8_0"))
    assert (cache.received_bytes(ours), cache.received_bytes(other)) == (2 * MEBIBYTE, 0)
    hub.cuts.clear()
    hub.asked.clear()
    assert download.plan([parse_reference(REPOSITORY)]).missing_bytes == MEBIBYTE
    pull(REPOSITORY)
    assert hub.ranges() == [f"bytes={2 * MEBIBYTE}-"]
    assert (cache.received_bytes(ours), cache.received_bytes(other)) == (len(Q4), 0)


def test_what_was_received_of_former_versions_does_not_count_and_is_removed(hub, tmp_path):
    hub.cuts = [2 * MEBIBYTE, *[0] * 10]
    refusal(REPOSITORY)
    (former,) = tmp_path.rglob("*.incomplete")
    os.utime(former, (0, 0))
    hub.repositories[REPOSITORY]["coder-7b-q4_k_m.gguf"] = Q4 + b"new"
    hub.cuts = [MEBIBYTE, *[0] * 10]
    refusal(REPOSITORY)
    ours, other = (Reference(REPOSITORY, file=f"coder-7b-{q}.gguf") for q in ("q4_k_m", "q8_0"))
    assert cache.received_bytes(ours) == MEBIBYTE
    of_other = cache.partial_of(former.with_name("0" * 64), other.file)
    of_other.write_bytes(b"GGUF")
    hub.cuts.clear()
    pull(REPOSITORY)
    assert list(tmp_path.rglob("*.incomplete")) == [of_other]


def test_a_cancelled_download_goes_on_the_next_time(hub):
    cancel = threading.Event()
    seen: list[int] = []

    def report(done: int, total: int) -> None:
        assert total == len(Q4)
        seen.append(done)
        if done >= MEBIBYTE:
            cancel.set()

    error = refusal(REPOSITORY, report=report, is_cancelled=cancel.is_set)
    assert isinstance(error, DownloadCancelledError)
    hub.asked.clear()
    pull(REPOSITORY)
    assert hub.ranges() == [f"bytes={seen[-1]}-"]


def test_silence_does_not_hold_a_cancelled_download_up(hub):
    hub.hold = threading.Event()
    error = refusal(REPOSITORY, is_cancelled=lambda: len(hub.ranges()) == 1)
    assert isinstance(error, DownloadCancelledError)
    assert not hub.hold.is_set()


def test_bytes_with_another_checksum_are_thrown_away(hub):
    hub.damaged = {"coder-7b-q4_k_m.gguf"}
    assert "checksum" in refusal(REPOSITORY).message
    hub.damaged.clear()
    hub.asked.clear()
    (path,) = pull(REPOSITORY)
    assert path.read_bytes() == Q4
    assert hub.ranges() == ["bytes=0-"], "nothing of the damaged file is kept"


def test_a_private_repository_needs_a_token(hub, monkeypatch):
    hub.private, hub.token = {REPOSITORY}, "right"
    error = refusal(REPOSITORY)
    assert "may not read" in error.message
    assert "hf auth login" in error.remedy
    for wrong in ("wrong", "wr\u00f6ng", "wrong\x1b[2J"):
        monkeypatch.setenv("HF_TOKEN", wrong)
        error = str(refusal(REPOSITORY))
        assert ("refused the token" if wrong == "wrong" else "no token has") in error
        assert "wr" not in error
    monkeypatch.setenv("HF_TOKEN", "right")
    pull(REPOSITORY)


def test_a_gated_repository_names_the_page_to_agree_on(hub, monkeypatch):
    hub.gated, hub.token = {REPOSITORY}, "right"
    error = refusal(REPOSITORY)
    assert "gated" in error.message
    assert f"https://huggingface.co/{REPOSITORY}" in error.remedy
    monkeypatch.setenv("HF_TOKEN", "right")
    pull(REPOSITORY)


def test_a_repository_that_is_not_there():
    assert "no repository owner/nothing" in refusal("owner/nothing").message


@pytest.mark.parametrize("detail", ["Q5_K_M", "coder-7b-q5_k_m.gguf"])
def test_a_file_that_is_not_there_is_told_with_those_that_are(detail):
    error = refusal(f"{REPOSITORY}:{detail}")
    assert isinstance(error, ModelNotFoundError)
    assert f"has no {detail}" in error.message
    assert error.remedy == "It has coder-7b-q4_k_m.gguf, coder-7b-q8_0.gguf."


@pytest.mark.parametrize(
    "text",
    [
        "owner",
        "a/b/c",
        "owner/na me",
        "",
        "/x",
        "../../etc:Q4",
        "../x",
        "a/..",
        "a--b/c",
        "a/b..c",
        "-a/b",
        "a/.b",
        "a/b-",
        "\u00e9/b",
        "a/b\nc",
        f"a/{'b' * 97}",
    ],
)
def test_names_that_are_no_repositories(text, hub):
    with pytest.raises(SpecLspError, match="not a repository of Hugging Face"):
        parse_reference(text)
    assert not hub.asked


def test_space_is_checked_before_anything_is_written(hub, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=len(Q4) - 1))
    error = refusal(REPOSITORY)
    assert "no space" in error.message
    assert "HF_HOME" in error.remedy
    assert not hub.ranges()
    assert not (tmp_path / "cache").exists()


def test_a_disk_that_fills_up_meanwhile(hub, monkeypatch):
    full = OSError(errno.ENOSPC, "No space left on device")

    def replace(*_: object) -> None:
        raise full

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", replace)
        error = refusal(REPOSITORY)
    assert isinstance(error, DownloadError)
    assert "no space" in error.message
    hub.asked.clear()
    pull(REPOSITORY)
    assert not hub.ranges(), "what has arrived is not sent again"


def test_offline_nothing_is_asked(hub, monkeypatch):
    monkeypatch.setattr(cache.hub_constants(), "HF_HUB_OFFLINE", True)
    error = refusal(REPOSITORY)
    assert error.message == f"Nothing is asked of {REPOSITORY}: downloads are switched off."
    assert "HF_HUB_OFFLINE" in error.remedy
    assert not hub.asked


def test_removing_frees_the_bytes_and_leaves_the_rest(hub, tmp_path):
    pull(f"{REPOSITORY}:Q8_0")
    paths = pull(REPOSITORY)
    assert cache.remove(paths) == len(Q4)
    assert cache.cached_paths(parse_reference(f"{REPOSITORY}:Q4_K_M")) is None
    assert cache.cached_paths(parse_reference(f"{REPOSITORY}:Q8_0")) is not None
    assert not [p for p in tmp_path.rglob("*") if p.is_file() and p.stat().st_size == len(Q4)]
    assert [path.name for _, path in cache.cached_models()] == ["coder-7b-q8_0.gguf"]


def test_removing_frees_the_bytes_where_the_caches_path_goes_up(hub, tmp_path, monkeypatch):
    constants = cache.hub_constants()
    (tmp_path / "other").mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", f"{tmp_path}/other/../cache")
    paths = pull(REPOSITORY)
    assert cache.remove(paths) == len(Q4)
    assert list(tmp_path.rglob("blobs/*")) == []


@pytest.mark.parametrize("name", [REPOSITORY, f"{REPOSITORY}:coder-7b-q4_k_m.gguf"])
def test_removing_frees_what_an_interrupted_download_left(name, hub, tmp_path):
    hub.cuts = [MEBIBYTE, *[0] * 10]
    refusal(name)
    removed = CliRunner().invoke(models, ["remove", name])
    assert removed.output == "Removed 1 files, 1.0 MB.\n"
    assert list(tmp_path.rglob("blobs/*")) == []
    again = CliRunner().invoke(models, ["remove", name])
    assert "is not downloaded" in str(again.exception)


def test_a_link_to_a_removed_file_is_no_model(hub):
    (path,) = pull(REPOSITORY)
    older = path.parent.with_name("older-commit")
    older.mkdir()
    (older / path.name).symlink_to(path.readlink())
    assert len(cache.cached_models()) == 2
    cache.remove([path])
    assert cache.cached_models() == []
    path.symlink_to(path.parent / "no-blob")
    assert cache.cached_paths(parse_reference(REPOSITORY)) is None


def test_a_model_that_may_not_be_removed(hub, monkeypatch):
    (path,) = pull(REPOSITORY)
    monkeypatch.setattr(
        Path, "unlink", Mock(side_effect=PermissionError(errno.EACCES, "Permission denied"))
    )
    with pytest.raises(ModelError, match=r"cannot be removed: Permission denied\..* may write"):
        cache.remove([path])


@pytest.mark.parametrize("how", ["refused", "switched off"])
def test_where_no_links_are_made_the_file_has_its_name(how, hub, monkeypatch):
    if how == "refused":
        refused = OSError(errno.EPERM, "Operation not permitted")
        monkeypatch.setattr(Path, "symlink_to", Mock(side_effect=refused))
    else:
        monkeypatch.setattr(cache.hub_constants(), "HF_HUB_DISABLE_SYMLINKS", True)
    (path,) = pull(REPOSITORY)
    assert path.is_file()
    assert not path.is_symlink()
    pull(REPOSITORY)
    assert len(hub.ranges()) == 1, "it is not sent again"
    path.write_bytes(bytes(len(Q4)))
    (path,) = pull(REPOSITORY)
    assert path.read_bytes() == Q4
    assert cache.remove([path]) == len(Q4)


def test_only_blobs_are_removed_with_their_names(hub, tmp_path):
    (path,) = pull(REPOSITORY)
    mine = tmp_path / "mine.gguf"
    mine.write_bytes(b"GGUF")
    path.unlink()
    path.symlink_to("../../../../mine.gguf")
    assert path.samefile(mine)
    cache.remove([path])
    assert mine.exists()
    assert not path.is_symlink()


def test_what_other_programs_cached_under_odd_names_is_passed_over(hub):
    (path,) = pull(REPOSITORY)
    path.with_name("a\x1b[2J-q4_k_m.gguf").symlink_to(path.readlink())
    assert cache.cached_paths(parse_reference(REPOSITORY)) == (path,)
    assert [found for _, found in cache.cached_models()] == [path]
    (path.parents[2] / "refs" / "main").write_text("../snapshots/" + path.parent.name)
    assert cache.cached_paths(parse_reference(REPOSITORY)) is None


def test_two_downloads_of_one_file_at_once(hub):
    hub.hold = threading.Event()
    outcome: list[tuple[Path, ...]] = []
    first = threading.Thread(target=lambda: outcome.append(pull(REPOSITORY)))
    first.start()
    while not hub.ranges():
        first.join(0.01)
    assert "another process" in refusal(REPOSITORY).message
    hub.hold.set()
    first.join()
    assert outcome[0][0].read_bytes() == Q4
