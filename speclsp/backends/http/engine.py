"""A remote engine over HTTP: connections, streams, retries, and the pause after a failure.

A thread with an event loop sends and receives, so that a request to a stalled server can be
cancelled at any time: the engine's thread waits for a queue, and cancelling the loop's task closes
the connection.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import logging
import math
import queue
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar

import httpx2
import msgspec

from speclsp.backends.http.credentials import client_context, is_loopback
from speclsp.backends.http.dialects import DIALECTS, JsonObject, find_model, tokenize_body
from speclsp.backends.http.messages import (
    Piece,
    RemoteModel,
    RemoteParams,
    RemotePrompt,
    RemoteStats,
)
from speclsp.errors import KeyRefusedError, OtherModelError, RemoteError, SettingsError

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_POLL_S: Final = 0.02
_CONNECT_S: Final = 2.0
"""Longest time for a connection, handshakes included."""
_SILENT_S: Final = 30.0
"""Longest time without a byte from the server within a stream."""
_RETRY_PAUSES_S: Final = (0.0, 0.25, 1.0)
"""Pauses before the retries of a request that failed before its first event.  The first retry
replaces a connection that the server had closed."""
_N_LATE: Final = 3
"""Requests in a row without an answer in time after which a failure is reported."""
_FIRST_DOWN_S: Final = 0.5
_LONGEST_DOWN_S: Final = 30.0
_FETCH_S: Final = 5.0
"""Longest time for a request that is no stream; the caller waits for it."""
_LOADS_WITHIN_S: Final = 300.0
_KEPT_ALIVE_S: Final = 60.0
_MAX_LINE_BYTES: Final = 1 << 20
_MAX_STREAM_BYTES: Final = 1 << 24
_IDLE_S: Final = 30.0
"""Seconds without an answer after which a llama-server is probed again: it may run another model,
and it ignores the model that a request names."""
_N_SHOWN: Final = 200
_N_REPEATED: Final = 16
"""A server's message is cut where it repeats this many characters of the request."""

_LAST_EVENT: Final = b"[DONE]"
_REFUSALS: Final = frozenset({400, 405, 413, 422, 501})
"""Statuses for requests that the server understands and refuses; the next one may succeed."""
_CHECK: Final = "Check engine_kind and engine_model."
_CHECK_KEY: Final = (
    "Put a valid key into SPECLSP_ENGINE_KEY or engine_key_file; behind a gateway that refuses "
    "unknown paths also set engine_kind."
)

# These log each request and each step of it.
for _name in ("httpx2", "httpcore2"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class _MalformedError(Exception):
    """A response breaks the format, or is too long."""


_MALFORMED: Final = (_MalformedError, msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Stream:
    """One request; the loop's thread puts its pieces into a queue, and None after the last."""

    def __init__(self, prompt: RemotePrompt, params: RemoteParams, ends_at: float) -> None:
        self.prompt = prompt
        self.params = params
        self.ends_at = ends_at
        self.stats = RemoteStats(n_prompt=len(prompt.tokens))
        self.pieces: queue.SimpleQueue[Piece | None] = queue.SimpleQueue()
        self.error: RemoteError | None = None
        """The failure before the latest retry."""


class HttpEngine:
    """A server at ``url`` that completes code.

    ``kind`` is a dialect or ``auto``, ``key`` the bearer token or empty, ``model`` the model to use
    of a server that has several, and ``ca_file`` names certificates to trust instead of the
    system's.
    One thread calls it; any thread may call :meth:`tokenize` and :meth:`close`.
    Its many attributes are the address, and what is known of the server, which each answer changes.

    Raises :class:`~speclsp.errors.RemoteError` where ``url`` cannot be used, and
    :class:`~speclsp.errors.SettingsError` where ``ca_file`` cannot be read.
    """

    def __init__(
        self,
        url: str,
        kind: str = "auto",
        key: str = "",
        *,
        model: str = "",
        ca_file: str = "",
        clock: Callable[[], float] = time.monotonic,
        read_key: Callable[[], str] | None = None,
    ) -> None:
        """``read_key`` returns the present key; it is called after a failure."""
        self._url = _base_url(url)
        self._paths = self._url.raw_path.decode().rstrip("/"), self._url.path.rstrip("/")
        """The path as it is sent, and without percent-encoding; empty for none."""
        self._address = str(self._url.copy_with(path="/")).rstrip("/")
        """Without the path, which may be a key."""
        self._kind = kind
        self._key = key
        self._read_key = read_key
        self._wanted = model
        self._clock = clock
        self._model: RemoteModel | None = None
        self._is_known = False
        self._heard_at = 0.0
        self.stats = RemoteStats()
        """Times and counts of the last stream."""
        self._down: RemoteError | None = None
        self._down_until = 0.0
        self._down_s = 0.0
        self._n_late = 0
        self._loading: concurrent.futures.Future[Any] | None = None
        local = is_loopback(self._url.host) or self._url.host.endswith(".localhost")
        self.warning = (
            f"The key for {self._url.host} crosses the network unencrypted: use https."
            if key and self._url.scheme == "http" and not local
            else ""
        )
        """A problem of the address that does not prevent its use; empty for none."""
        self._client = _client(self._url, key, ca_file, is_local=local)
        self._lock = threading.Lock()
        self._is_closed = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="speclsp-remote", daemon=True
        )
        self._thread.start()

    def connect(self) -> RemoteModel:
        """Find out which API the server speaks and which model it runs.

        Raises :class:`~speclsp.errors.RemoteError` with a remedy.
        """
        self._check_pause()
        try:
            model = self._wait_for(self._probe())
        except RemoteError as error:
            self._note_failure(error)
            raise
        self._note_success()
        self._load()
        if self.warning:
            logger.warning("%s", self.warning)
        return model

    def stream(
        self,
        prompt: RemotePrompt,
        params: RemoteParams,
        interrupted: Callable[[], object],
        deadline_s: float,
    ) -> Generator[Piece]:
        """Continue a prompt; yields until the server ends, or for ``deadline_s`` seconds.

        The request is cancelled when the iterator is closed and within 50 ms after
        ``interrupted()`` is true; if that is ``"deadline"``, the server was too slow.  Where the
        stream breaks off, the pieces so far are the answer.
        Raises :class:`~speclsp.errors.RemoteError` where there is no piece at all: at once, without
        asking the server, during the pause that follows a failure.
        """
        started = self._clock()
        self._check_pause()
        stream = _Stream(prompt, params, ends_at=started + deadline_s)
        self.stats = stats = stream.stats
        future = self._submit(self._receive(stream))
        try:
            while not (why := interrupted()):
                if self._clock() >= stream.ends_at:
                    why = "deadline"
                    break
                try:
                    piece = stream.pieces.get(timeout=_POLL_S)
                except queue.Empty:
                    continue
                if piece is None:
                    with suppress(concurrent.futures.CancelledError):  # by close()
                        future.result()
                    return
                if not stats.ms_first:
                    stats.ms_first = 1000 * (self._clock() - started)
                    self._n_late = 0
                yield piece
            stats.is_cut = True
            if why == "deadline" and not stats.ms_first:
                self._note_lateness(stream, deadline_s)
        except GeneratorExit:
            # A stop rule ended the answer, which closes the connection: open one for the next.
            with suppress(RemoteError):
                self._submit(self._open_connection())
            raise
        finally:
            future.cancel()
            if not stats.ms_first:
                self._load()
            if stats.ms_prompt:
                stats.ms_network = max(0.0, stats.ms_first - stats.ms_prompt)

    def prefill(self, prompt: RemotePrompt, interrupted: Callable[[], bool]) -> None:
        """Have a llama-server evaluate a prompt for a later request; never raises."""
        with suppress(RemoteError):
            for _ in self.stream(prompt, RemoteParams(n_predict=0), interrupted, math.inf):
                pass

    def request(self, prompt: RemotePrompt, params: RemoteParams) -> tuple[str, JsonObject]:
        """Return the path and the JSON that :meth:`stream` sends for a prompt, once connected."""
        assert self._model is not None
        return DIALECTS[self._model.kind].request(self._model, prompt, params)

    def tokenize(self, text: str, *, special: bool = False) -> list[int] | None:
        """Return the server's token ids of ``text``; None where it has no tokenizer API.

        With ``special`` the name of a special token is that token, as in prompts.
        """
        body = self._model and tokenize_body(self._model, text, special=special)
        if not body:
            return None
        try:
            answer = self._wait_for(self._fetch("/tokenize", body))
        except RemoteError:
            return None
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        return tokens if isinstance(tokens, list) else None

    def close(self) -> None:
        """End all requests and connections; any thread may call it."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            ended = asyncio.run_coroutine_threadsafe(self._shut_down(), self._loop)
        ended.result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _submit(self, work: Coroutine[Any, Any, _T]) -> concurrent.futures.Future[_T]:
        with self._lock:
            if not self._is_closed:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise RemoteError("The remote engine is closed.")

    def _wait_for(self, work: Coroutine[Any, Any, _T]) -> _T:
        try:
            return self._submit(work).result()
        except concurrent.futures.CancelledError:
            raise RemoteError("The remote engine is closed.") from None

    async def _shut_down(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if tasks:
            # A connection that is cancelled as it begins has Python warn on standard error.
            await asyncio.wait(tasks, timeout=_POLL_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.aclose()

    async def _probe(self) -> RemoteModel:
        known = self._model
        model = await find_model(self._fetch, self._kind, self._url.host, self._wanted)
        if known is not None:
            if (model.name, model.n_vocab) != (known.name, known.n_vocab):
                # Prompts have the former model's special tokens, and perhaps its token ids.
                raise OtherModelError(
                    f"The remote engine at {self._address} runs {model.name} now, and ran "
                    f"{known.name}.",
                )
            if known.slot < model.n_slots:
                # The slot holds the window's prompt, unless the server was restarted.
                model = dataclasses.replace(model, slot=known.slot)
        self._model, self._is_known, self._heard_at = model, True, self._clock()
        return model

    async def _receive(self, stream: _Stream) -> None:
        """Put a stream's pieces into its queue, and None at its end; retries until the first piece.

        Raises :class:`~speclsp.errors.RemoteError`.
        """
        # A server that was down gets one request, which tells whether it is back.
        pauses = iter(_RETRY_PAUSES_S if self._down is None else ())
        n_pieces = 0
        try:
            while True:
                try:
                    async for piece in self._pieces(stream):
                        if not n_pieces:
                            # Noted here, since a stop rule ends most answers before their end.
                            self._note_success()
                        n_pieces += 1
                        stream.pieces.put(piece)
                    self._note_success()
                    return
                except RemoteError as error:
                    if n_pieces:
                        stream.stats.is_cut = True
                        logger.warning("An answer of the remote engine broke off: %s", error)
                        return
                    stream.error = error
                    if error.is_down:
                        # Another server, or another model, may come back.
                        self._is_known = False
                    pause_s = next(pauses, None)
                    if pause_s is None or error.retry_after_s is None:
                        raise
                    pause_s = max(pause_s, error.retry_after_s)
                    if pause_s > _LONGEST_DOWN_S or self._clock() + pause_s >= stream.ends_at:
                        raise
                    await asyncio.sleep(pause_s)
        except RemoteError as error:
            self._note_failure(error)
            raise
        finally:
            stream.pieces.put(None)

    def _load(self) -> None:
        """Have Ollama load the model, which takes longer than a request may take.

        Ollama stops loading where the request that needs the model is cancelled.
        """
        if self._model is None or self._model.kind != "ollama":
            return
        if self._loading is None or self._loading.done():
            work = self._fetch("/api/generate", {"model": self._model.name}, _LOADS_WITHIN_S)
            with suppress(RemoteError):
                self._loading = self._submit(work)

    def _check_pause(self) -> None:
        if self._down is not None and self._clock() < self._down_until:
            raise RemoteError(self._down.message, remedy=self._down.remedy)
        if self._down is not None and self._read_key is not None:
            with suppress(SettingsError):
                self._key = self._read_key() or self._key
                self._client.headers.update(_authorization(self._key))

    def _note_success(self) -> None:
        self._down, self._down_s, self._heard_at = None, 0.0, self._clock()

    def _note_failure(self, error: RemoteError) -> None:
        """Make requests fail at once for a pause, which doubles with each failure in a row."""
        if not error.is_down:
            return
        self._down_s = min(max(2 * self._down_s, _FIRST_DOWN_S), _LONGEST_DOWN_S)
        wait_s = max(self._down_s, min(error.retry_after_s or 0.0, _LONGEST_DOWN_S))
        self._down, self._down_until = error, self._clock() + wait_s

    def _note_lateness(self, stream: _Stream, deadline_s: float) -> None:
        """Raise RemoteError where retries used up the time, or several requests had no answer.

        A single late answer raises nothing: a long prompt may take that long once.
        """
        if stream.error is not None:
            self._note_failure(stream.error)
            raise stream.error
        self._n_late += 1
        if self._n_late >= _N_LATE:
            error = self._failure(
                f"did not begin to answer {_N_LATE} requests within {deadline_s:g} s each",
                "Check the server's load, shorten the prompt (n_prompt), or raise deadline_ms.",
            )
            self._note_failure(error)
            raise error

    async def _pieces(self, stream: _Stream) -> AsyncIterator[Piece]:
        model = self._model
        if model is None or not self._is_known or self._may_differ(model):
            model = await self._probe()
        dialect = DIALECTS[model.kind]
        path, body = dialect.request(model, stream.prompt, stream.params)
        sent = stream.prompt.all_text
        # Half of the time, to distinguish an unreachable host from a slow one.
        connect_s = min(_CONNECT_S, (stream.ends_at - self._clock()) / 2)
        limits = httpx2.Timeout(_SILENT_S, connect=max(connect_s, _POLL_S))
        try:
            async with self._client.stream("POST", path, json=body, timeout=limits) as response:
                if not response.is_success:
                    raise self._refusal(response, await _content(response), sent)
                async for event in _events(response):
                    if event == _LAST_EVENT:
                        continue  # read on to the response's end, which keeps the connection
                    if b'"error"' in event and (words := _words(event)):
                        raise self._failure(f"fails: {self._quotable(words, sent)}")
                    piece = dialect.read(event, stream.stats)
                    if piece.text or piece.tokens:
                        yield piece
        except httpx2.HTTPError as error:
            raise self._loss(error) from error
        except _MALFORMED:
            raise self._failure("answers with something that is no stream of events") from None

    def _may_differ(self, model: RemoteModel) -> bool:
        return model.kind == "llama-server" and self._clock() - self._heard_at > _IDLE_S

    async def _fetch(
        self, path: str, body: JsonObject | None = None, within_s: float = _FETCH_S
    ) -> Any:
        """Return the JSON at ``path``; None where it is refused, or is no JSON."""
        method = "GET" if body is None else "POST"
        limits = httpx2.Timeout(within_s, connect=_CONNECT_S)
        try:
            async with (
                asyncio.timeout(within_s),
                self._client.stream(method, path, json=body, timeout=limits) as response,
            ):
                content = await _content(response)
                if response.status_code in {*_REFUSALS, httpx2.codes.NOT_FOUND}:
                    return None
                if not response.is_success:
                    # A message about texts may quote them.
                    raise self._refusal(response, b"" if body else content, "")
                return msgspec.json.decode(content)
        except (httpx2.HTTPError, TimeoutError) as error:
            raise self._loss(error) from error
        except _MALFORMED:
            return None

    async def _open_connection(self) -> None:
        with suppress(httpx2.HTTPError):
            await self._client.head("/")

    def _refusal(self, response: httpx2.Response, content: bytes, sent: str) -> RemoteError:
        """Return the error for a status other than success."""
        status = response.status_code
        words = self._quotable(_words(content), sent)
        said = f" ({words})" if words else ""
        if status in (401, 403):
            what = f"refuses the key with status {status}{said}"
            return self._failure(what, _CHECK_KEY, KeyRefusedError)
        if status == httpx2.codes.PROXY_AUTHENTICATION_REQUIRED:
            remedy = "Put both into its address: HTTP_PROXY=http://USER:PASSWORD@HOST:PORT."
            return self._failure("is behind a proxy that asks for a name and a password", remedy)
        if status == httpx2.codes.NOT_FOUND:
            return self._failure(f"knows no such path or model{said}", _CHECK)
        if status in _REFUSALS:
            # Servers that take a model's prompt as text only refuse a suffix.
            remedy = f"{_CHECK} Where the model's name does not tell its prompt, set fim_template."
            error = self._failure(f"refuses the request with status {status}{said}", remedy)
            error.is_down = False
            return error
        if response.has_redirect_location:
            target = response.next_request.url.host if response.next_request else "another address"
            remedy = "Redirects are not followed: set engine_url to the address itself."
            return self._failure(f"redirects to {target}", remedy)
        if status == httpx2.codes.TOO_MANY_REQUESTS:
            remedy = "Wait, or ask less often: raise debounce_ms or set idle_work to never."
            error = self._failure(f"limits how often it is asked{said}", remedy)
        else:
            error = self._failure(f"is overloaded or broken, status {status}{said}")
        # A date, the header's other form, counts as none.
        pause = response.headers.get("retry-after", "").strip()
        error.retry_after_s = float(pause) if pause.isdecimal() else 0.0
        return error

    def _loss(self, error: Exception) -> RemoteError:
        """Return the error for a connection that could not be made or was lost."""
        causes = list(_causes(error))
        tls = next((cause for cause in causes if isinstance(cause, ssl.SSLError)), None)
        if isinstance(tls, ssl.SSLCertVerificationError):
            what = f"has a certificate that is not trusted: {tls.verify_message}"
            remedy = (
                "Name your organisation's certificates in engine_ca_file, or correct engine_url."
            )
            return self._failure(what, remedy)
        if tls is not None:
            remedy = "Check whether engine_url should begin with http:// or name another port."
            return self._failure("offers no TLS connection", remedy)
        if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
            remedy = "Check that the server runs, engine_url, and the proxy in HTTPS_PROXY."
            found = self._failure(f"cannot be reached: {error or 'no answer'}", remedy)
        elif isinstance(error, httpx2.TimeoutException | TimeoutError):
            found = self._failure("does not answer in time")
        else:
            found = self._failure("closes the connection without an answer")
        found.retry_after_s = 0.0
        return found

    def _failure(
        self, what: str, remedy: str = "", kind: type[RemoteError] = RemoteError
    ) -> RemoteError:
        return kind(f"The remote engine at {self._address} {what}.", remedy=remedy)

    def _quotable(self, words: str, sent: str) -> str:
        """Return a server's message without key and path, cut where it repeats the request."""
        for hidden in filter(None, (self._key, *self._paths)):
            words = words.replace(hidden, "…")
        words = " ".join(words.split())
        words, sent = words[:_N_SHOWN], " ".join(sent.split())
        for start in range(len(words) - _N_REPEATED + 1):
            if words[start : start + _N_REPEATED] in sent:
                return f"{words[:start]}…"
        return words


async def _content(response: httpx2.Response) -> bytes:
    content = b""
    async for chunk in response.aiter_bytes():
        content += chunk
        if len(content) > _MAX_STREAM_BYTES:
            raise _MalformedError
    return content


async def _events(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield the JSON of each event, from server-sent events or from lines of JSON (Ollama).

    All servers send one ``data`` line for each event, so that no full parser is needed; and
    httpx2's knows neither lines of JSON nor the ``error`` lines of older llama-servers.
    """
    rest, n_bytes = b"", 0
    async for chunk in response.aiter_bytes():
        n_bytes += len(chunk)
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _MAX_LINE_BYTES or n_bytes > _MAX_STREAM_BYTES:
            raise _MalformedError
        for line in lines:
            if event := _event(line):
                yield event
    if event := _event(rest):  # some servers end no last line
        yield event


def _event(line: bytes) -> bytes:
    """Return the JSON of a line of a stream; empty where it has none."""
    name, _, value = line.rstrip(b"\r").partition(b":")
    if line.startswith(b"{"):
        return line
    if name == b"data":
        return value.strip()
    if name == b"error":
        return b'{"error":%b}' % value
    if name not in (b"", b"event", b"id", b"retry"):
        raise _MalformedError
    return b""


def _words(content: bytes) -> str:
    """Return the message of a server's error, empty where there is none."""
    try:
        found = msgspec.json.decode(content)
    except _MALFORMED:
        return ""
    for field in ("error", "detail", "message", "msg"):
        while isinstance(found, list) and found:
            found = found[0]
        if isinstance(found, dict):
            found = found.get(field, found)
    return found if isinstance(found, str) else ""


def _base_url(url: str) -> httpx2.URL:
    """Return the address that paths are added to, without ``/v1`` or ``/beta`` at its end.

    Raises :class:`~speclsp.errors.RemoteError`.
    """
    remedy = "It looks like http://localhost:8080 or https://host/path."
    try:
        found = httpx2.URL(url.strip())
    except httpx2.InvalidURL:
        # Neither message quotes the address: it may hold a password or a key.
        raise RemoteError("engine_url is no address.", remedy=remedy) from None
    if found.scheme == "speclsp":
        raise RemoteError(
            "engine_url names a port, and engines of speclsp listen at Unix sockets only.",
            remedy="Forward the engine's socket by SSH: docs/remote.md has the line.",
        )
    if found.scheme == "speclsp+unix":
        raise RemoteError(
            "engine_url names an engine of speclsp, which this process cannot change to.",
            remedy="Restart the language server: the address counts from its start.",
        )
    if found.userinfo:
        remedy = "Put the key into SPECLSP_ENGINE_KEY or engine_key_file."
        raise RemoteError("engine_url has a user name or a password in it.", remedy=remedy)
    if found.scheme not in ("http", "https") or not found.host or found.query:
        raise RemoteError("engine_url is no address of a server.", remedy=remedy)
    path = found.path.rstrip("/").removesuffix("/v1").removesuffix("/beta").rstrip("/")
    return found.copy_with(path=f"{path}/", fragment=None)


def _client(url: httpx2.URL, key: str, ca_file: str, *, is_local: bool) -> httpx2.AsyncClient:
    """Return a client of the server at ``url``.  Raises as :class:`HttpEngine`."""
    trusted = client_context(ca_file) if ca_file else True
    try:
        return httpx2.AsyncClient(
            base_url=url,
            # Compression would hold events back.
            headers={"Accept-Encoding": "identity", **_authorization(key)},
            limits=httpx2.Limits(keepalive_expiry=_KEPT_ALIVE_S),
            verify=trusted,
            # A proxy cannot reach this machine's own ports.
            trust_env=not is_local,
            # The key and the code are meant for this host.
            follow_redirects=False,
            # A closed HTTP/2 stream is not reset by httpcore2: the server would generate to the
            # end.  A closed HTTP/1.1 connection ends the request everywhere.
            http2=False,
        )
    except (ImportError, ValueError, httpx2.InvalidURL):
        raise RemoteError(
            "The proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names cannot be used.",
            remedy=f"Name an http:// or https:// proxy, or add {url.host} to NO_PROXY.",
        ) from None


def _authorization(key: str) -> dict[str, str]:
    """Return the header with a key, none without; raises RemoteError where none can hold it."""
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise RemoteError(
            "The key of the remote engine has characters that no key has.",
            remedy="SPECLSP_ENGINE_KEY or engine_key_file holds the key alone.",
        )
    return {"Authorization": f"Bearer {key}"} if key else {}


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
