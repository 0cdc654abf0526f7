"""HTTP to a hub and to servers of single files: bounded in bytes, in time and in redirects.

httpx2 limits the time of a single read, so that a byte now and then holds a request up for ever;
and it reads redirects' bodies, and unpacks what is compressed, whole.  Here a request ends with
its time, the bodies of redirects stay unread, and compressed answers are refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import httpx2

from speclsp import __version__
from speclsp.errors import DownloadError
from speclsp.models.cache import hub_constants

LostError = httpx2.HTTPError
"""A connection cannot be made, or was lost; the same request may succeed later."""
UNREACHABLE: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
)
"""Those of the former that come before anything is sent."""

_T = TypeVar("_T")

_SILENT_S: Final = 10.0
"""Longest time for a connection, and without a byte."""
_ANSWER_S: Final = 60.0
"""Longest time for a whole answer that is no file: lists of files have some 100 kB."""
_MAX_REDIRECTS: Final = 5
"""Hugging Face redirects once for a renamed repository, and once to where the bytes are."""
_POLL_S: Final = 0.05


class OfflineError(Exception):
    """``HF_HUB_OFFLINE`` switches downloads off."""


class RefusedError(Exception):
    """A server answered with a status other than success."""

    def __init__(self, response: httpx2.Response) -> None:
        super().__init__(response.status_code)
        self.status = response.status_code
        self.code: str = response.headers.get("X-Error-Code", "")
        """Hugging Face's name of the error, such as ``GatedRepo``."""
        self.refuses_token = "Invalid credentials" in response.headers.get("X-Error-Message", "")


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request that is not for a file."""

    headers: httpx2.Headers
    content: bytes
    """As much of the body as was asked for."""


def endpoint() -> str:
    """Return the address of Hugging Face, or of the mirror in ``HF_ENDPOINT``."""
    return str(hub_constants().ENDPOINT)


def run(work: Coroutine[Any, Any, _T], is_cancelled: Callable[[], bool] = lambda: False) -> _T:
    """Run a coroutine to its end, in a thread without an event loop.

    Raises ``asyncio.CancelledError`` where it is cancelled.
    """

    async def watched() -> _T:
        task = asyncio.create_task(work)
        while not (await asyncio.wait((task,), timeout=_POLL_S))[0]:
            if is_cancelled():
                task.cancel()
        return await task

    return asyncio.run(watched())


def ask(
    method: str, url: str, n_bytes: int, *, logs_in: bool = False, needs_https: bool = False
) -> Answer:
    """Return the answer to a request, with at most ``n_bytes`` of its body.

    Raises LostError, RefusedError, OfflineError and DownloadError.
    """

    async def read() -> Answer:
        content = bytearray()
        try:
            async with (
                asyncio.timeout(_ANSWER_S),
                answer(method, url, logs_in=logs_in, needs_https=needs_https) as response,
            ):
                if n_bytes:
                    async for chunk in response.aiter_raw():
                        content += chunk
                        if len(content) >= n_bytes:
                            break
                return Answer(response.headers, bytes(content[:n_bytes]))
        except TimeoutError:
            raise httpx2.ReadTimeout(f"no whole answer within {_ANSWER_S:.0f} seconds") from None

    return run(read())


@asynccontextmanager
async def answer(
    method: str,
    url: str,
    *,
    logs_in: bool = False,
    more_headers: dict[str, str] | None = None,
    needs_https: bool = False,
) -> AsyncIterator[httpx2.Response]:
    """Yield a successful answer whose body has not been read; it is not compressed.

    ``logs_in`` sends Hugging Face's token of the user, and ``needs_https`` refuses redirects to
    other schemes.
    Raises LostError, RefusedError, OfflineError and DownloadError.
    """
    if hub_constants().is_offline_mode():
        raise OfflineError
    async with _client(logs_in=logs_in) as client:
        request = _request(client, method, url, more_headers)
        for _ in range(_MAX_REDIRECTS + 1):
            response = await _sent(client, request)
            try:
                if response.next_request is None:
                    _check(response)
                    yield response
                    return
            finally:
                await response.aclose()
            request = response.next_request
            if needs_https and request.url.scheme != "https":
                where = f"{request.url.scheme}://{request.url.netloc.decode()}"
                raise DownloadError(
                    f"The server redirects to {where}, where files can be changed in transit.",
                    remedy="Check HF_ENDPOINT and the proxy; `ngram pull` takes the file's "
                    "checksum with --sha256.",
                )
        raise httpx2.TooManyRedirects(f"it redirects more than {_MAX_REDIRECTS} times")


def _request(
    client: httpx2.AsyncClient, method: str, url: str, headers: dict[str, str] | None
) -> httpx2.Request:
    try:
        return client.build_request(method, url, headers=headers)
    except httpx2.InvalidURL as error:
        raise DownloadError(
            f"The address cannot be used: {error}.", remedy="Correct it, or HF_ENDPOINT."
        ) from error


async def _sent(client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
    try:
        return await client.send(request, stream=True)
    except LostError:
        raise
    except Exception as error:
        # httpx2 lets some errors of what is below it through, as for a redirect to port 999999.
        raise LostError(f"{type(error).__name__}: {error}") from error


def _check(response: httpx2.Response) -> None:
    if not response.is_success:
        raise RefusedError(response)
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise DownloadError(
            "The server sends compressed what was asked for as it is.",
            remedy="Check the proxy in HTTPS_PROXY, and the mirror in HF_ENDPOINT.",
        )


def _client(*, logs_in: bool) -> httpx2.AsyncClient:
    try:
        return httpx2.AsyncClient(headers=_headers(logs_in=logs_in), timeout=_SILENT_S)
    except (ImportError, ValueError, httpx2.InvalidURL):
        raise DownloadError(
            "The proxy that HTTPS_PROXY, HTTP_PROXY or ALL_PROXY names cannot be used.",
            remedy="Name an http:// or https:// proxy.",
        ) from None


def _headers(*, logs_in: bool) -> dict[str, str]:
    from huggingface_hub import utils  # noqa: PLC0415  # its import takes 0.3 s

    try:
        headers: dict[str, str] = utils.build_hf_headers(  # type: ignore[attr-defined]
            token=None if logs_in else False, library_name="speclsp", library_version=__version__
        )
    except Exception as error:  # each way to log in has errors of its own
        raise DownloadError(
            f"Hugging Face's token cannot be read: {str(error).rstrip('.')}.",
            remedy="Log in with `hf auth login`.",
        ) from error
    if not all(value.isascii() and value.isprintable() for value in headers.values()):
        raise DownloadError(
            "Hugging Face's token has characters that no token has.",
            remedy="Correct HF_TOKEN or --hf-token, or log in again with `hf auth login`.",
        )
    return headers | {"Accept-Encoding": "identity"}
