"""``speclsp ngram pull``: what is published arrives whole and checked, or the old file stays."""

import hashlib
import os
import ssl
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from click.testing import CliRunner, Result
from scripted_http import scripted_server

from speclsp import embedded
from speclsp.backends.llama.vocabulary import load_vocabulary
from speclsp.cli import ngram
from speclsp.cli.main import cli
from speclsp.errors import DownloadError, SpecLspError, StoreError
from speclsp.models import cache, download
from speclsp.ngrams.counting import count_tokens
from speclsp.ngrams.files import write

REPOSITORY = "team/statistics"
MEBIBYTE = 1 << 20


class OtherVocabulary:
    n_tokens = 5000
    fingerprint = "f" * 64


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("published") / "all.ngrams"
    tokens = np.random.default_rng(1).integers(0, 4000, 60_000).astype(np.int32)
    vocabulary = load_vocabulary(embedded.embedded_target())
    write(path, count_tokens([tokens], range(1, 4)).by_order, "speclsp", vocabulary)
    return path.read_bytes()


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_RETRY_PAUSE_S", 0.0)


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """The file of an earlier day."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "all.ngrams").write_bytes(b"old")
    return folder / "all.ngrams"


def pull(source: str, output: Path, *options: str) -> Result:
    command = ["ngram", "pull", source, "-o", str(output), *options]
    return CliRunner().invoke(cli, command, catch_exceptions=False)


def refusal(source: str, output: Path, *options: str) -> SpecLspError:
    with pytest.raises(SpecLspError) as caught:
        pull(source, output, *options)
    assert output.read_bytes() == b"old"
    assert caught.value.remedy
    return caught.value


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_from_a_repository(hub, output, published):
    hub.repositories[REPOSITORY] = {"all.ngrams": published, "README.md": b""}
    hub.cuts = [MEBIBYTE, MEBIBYTE]
    result = pull(f"{REPOSITORY}:all.ngrams", output)
    assert result.exit_code == 0
    assert "of 4,096 tokens" in result.output
    assert output.read_bytes() == published
    assert hub.ranges() == [f"bytes={n * MEBIBYTE}-" for n in range(3)]
    assert list(output.parent.iterdir()) == [output]
    output.write_bytes(b"old")
    wrong = refusal(f"{REPOSITORY}:mine.ngrams", output)
    assert "it has README.md, all.ngrams" in wrong.remedy


def test_what_breaks_off_is_resumed_by_the_next_call(hub, output, published, monkeypatch):
    monkeypatch.setattr(download, "_N_RETRIES", 0)
    hub.repositories[REPOSITORY] = {"all.ngrams": published}
    url = f"{hub.url}/{REPOSITORY}/resolve/main/all.ngrams".replace("//", "//me:hidden@", 1)
    hub.cuts = [MEBIBYTE, 0]
    error = refusal(url, output, "--sha256", sha256(published))
    assert "was lost" in str(error)
    assert "hidden" not in str(error)
    assert pull(url, output, "--sha256", sha256(published).upper()).exit_code == 0
    assert hub.ranges()[-1] == f"bytes={MEBIBYTE}-"
    assert output.read_bytes() == published
    assert list(output.parent.iterdir()) == [output]


def test_what_does_not_fit_is_refused(hub, output, published, monkeypatch):
    other = output.with_name("other")
    write(
        other,
        count_tokens([np.arange(9, dtype=np.int32)], [2]).by_order,
        "speclsp",
        OtherVocabulary(),
    )
    foreign = other.read_bytes()
    other.unlink()
    hub.repositories[REPOSITORY] = {"a": published, "foreign": foreign, "text": b"<html>"}
    hub.damaged = {"a"}
    assert "checksum" in str(refusal(f"{REPOSITORY}:a", output))
    hub.damaged.clear()
    assert "checksum" in str(refusal(f"{REPOSITORY}:a", output, "--sha256", "0" * 64))
    assert "another vocabulary" in str(refusal(f"{REPOSITORY}:foreign", output))
    assert isinstance(refusal(f"{REPOSITORY}:text", output), StoreError)
    assert "no SHA-256" in str(refusal(f"{REPOSITORY}:a", output, "--sha256", "0123"))
    monkeypatch.setattr(ngram, "_MAX_PULLED_BYTES", len(published) - 1)
    n_before = len(hub.ranges())
    assert "most that is pulled" in str(refusal(f"{REPOSITORY}:a", output))
    assert len(hub.ranges()) == n_before
    assert list(output.parent.iterdir()) == [output]


def test_an_address_without_tls_needs_a_checksum(hub, output):
    for url in (f"{hub.url}/{REPOSITORY}/resolve/main/a", "ftp://host/a", "https://host/"):
        assert "not the https:// address" in str(refusal(url, output))
    for url in ("https://[host/a", "https://host:port/a"):
        assert "malformed" in str(refusal(url, output))
    assert not hub.asked


@pytest.fixture
def site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificate: tuple[Path, ssl.SSLContext]
) -> Iterator[tuple[str, Path, list[Any]]]:
    """Serve a folder over TLS; yields its address, the folder and the headers of all requests."""
    folder, asked = tmp_path / "site", []
    folder.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def send_head(self) -> Any:
            if not self.path.startswith("/moved/"):
                return super().send_head()
            self.send_response(302)
            self.send_header("Location", (folder / "moved").read_text() + self.path)
            self.end_headers()
            return None

        def log_message(self, *_: Any) -> None:
            asked.append(self.headers)

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    path, tls = certificate
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    try:
        yield f"https://localhost:{server.server_port}", folder, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_from_a_web_server(site, output, published, monkeypatch):
    url, folder, asked = site
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    (folder / "all.ngrams").write_bytes(published)
    assert "answered 404" in str(refusal(f"{url}/none", output))
    assert "no SHA-256" in str(refusal(f"{url}/all.ngrams", output))
    (folder / "all.ngrams.sha256").write_text(f"{sha256(b'other')}  all.ngrams\n")
    assert "checksum" in str(refusal(f"{url}/all.ngrams", output))
    (folder / "all.ngrams.sha256").write_text(f"{sha256(published)}  all.ngrams\n")
    assert pull(f"{url}/all.ngrams", output).exit_code == 0
    assert output.read_bytes() == published
    assert asked
    assert not [headers for headers in asked if "Authorization" in headers], "another's server"


def test_redirects_do_not_lead_around_tls(site, hub, output, published):
    url, folder, _ = site
    listed = f"{sha256(published)}  a\n".encode()
    hub.repositories["moved/team"] = {"a": published, "a.sha256": listed}
    (folder / "moved").write_text(hub.url)
    address = f"{url}/moved/team/resolve/main/a"
    assert f"redirects to {hub.url}" in str(refusal(address, output))
    assert not hub.ranges()
    assert pull(address, output, "--sha256", sha256(published)).exit_code == 0
    assert output.read_bytes() == published


def test_a_hubs_redirects_do_not_lead_around_tls(site, hub, output, published, monkeypatch):
    """The list of files has the checksum that all else is compared with."""
    url, folder, _ = site
    hub.repositories[REPOSITORY] = {"a": published}
    (folder / "moved").write_text(hub.url)
    monkeypatch.setattr(cache.hub_constants(), "ENDPOINT", f"{url}/moved")
    assert f"redirects to {hub.url}" in str(refusal(f"{REPOSITORY}:a", output))
    assert not hub.asked


@pytest.mark.parametrize(
    "length",
    ["", "x", "-1", "1.5", "0x10", "\u00b2", "9" * 14, "9" * 5000, "0", " "],
    ids=lambda length: repr(length[:20]),
)
def test_lengths_that_are_none(length, output, published):
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode("latin-1")
    with scripted_server(lambda _: [head]) as server:
        error = refusal(f"{server.url}/a", output, "--sha256", sha256(published))
    assert isinstance(error, DownloadError)
    assert str(error).isprintable()
    assert len(str(error)) < 1000
    assert {request.method for request in server.requests} == {"HEAD"}
    assert list(output.parent.iterdir()) == [output]


def test_a_server_without_ranges_that_ends_early(hub, output):
    hub.repositories[REPOSITORY] = {"a": b"123456789"}
    hub.lengths_of_all = [8, 5, 8] * 20
    url = f"{hub.url}/{REPOSITORY}/resolve/main/a"
    assert "ended early" in str(refusal(url, output, "--sha256", sha256(b"123456789")))
    assert len(hub.ranges()) == 1 + download._N_RETRIES


def test_what_lies_in_the_folder_is_not_trusted(hub, output, published):
    hub.repositories[REPOSITORY] = {"a": published}
    digest = sha256(published)
    arrived = output.with_name(f".all.ngrams.{digest[:16]}")
    arrived.write_bytes(published[:-1] + bytes([published[-1] ^ 1]))
    assert "checksum" in str(refusal(f"{REPOSITORY}:a", output))
    arrived.symlink_to(output)
    assert "cannot be written" in str(refusal(f"{REPOSITORY}:a", output))
    cache.partial_of(arrived, "a").unlink()
    # Here an earlier pull was killed before its last step; another one was interrupted.
    arrived.write_bytes(published)
    former = output.with_name(f".all.ngrams.{'0' * 16}")
    cache.partial_of(former, "other name on the hub").write_bytes(b"former")
    n_before = len(hub.ranges())
    assert pull(f"{REPOSITORY}:a", output).exit_code == 0
    assert len(hub.ranges()) == n_before
    assert list(output.parent.iterdir()) == [output]


def test_what_arrived_needs_no_space_again(hub, output, published, monkeypatch):
    hub.repositories[REPOSITORY] = {"a": published}
    free = Mock(free=len(published) - MEBIBYTE)
    monkeypatch.setattr(download.shutil, "disk_usage", lambda _: free)
    assert "no space" in str(refusal(f"{REPOSITORY}:a", output))
    arrived = output.with_name(f".all.ngrams.{sha256(published)[:16]}")
    cache.partial_of(arrived, "a").write_bytes(published[:MEBIBYTE])
    assert pull(f"{REPOSITORY}:a", output).exit_code == 0


def test_an_output_that_is_no_regular_file(hub, output):
    output.unlink()
    os.mkfifo(output)
    with pytest.raises(StoreError, match="not a regular file"):
        pull(f"{REPOSITORY}:a", output)
    assert output.is_fifo()
    assert not hub.asked


def test_a_server_that_is_not_there(output):
    error = refusal("https://127.0.0.1:9/all.ngrams", output)
    assert isinstance(error, DownloadError)
    assert "cannot be reached" in str(error)
