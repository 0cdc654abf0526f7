"""The endpoints, and who may ask.

Loopback clients need no key unless one is set.  A request of a web page (one with an ``Origin``)
is refused unless that origin was named, and so is one for another host than this, since a page's
name may be made to lead here (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import itertools
import re
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import structs
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from speclsp.backends.http.credentials import is_loopback
from speclsp.errors import EngineUnavailableError, RequestError, SpecLspError
from speclsp.http_server import answers
from speclsp.http_server.bodies import (
    MAX_PROMPT,
    BodyError,
    TextBody,
    check_length,
    completion_body,
    infill_body,
    openai_body,
    read_json,
)
from speclsp.http_server.clients import Clients, StreamedText
from speclsp.http_server.prompt_tokens import PromptTokens
from speclsp.http_server.request_log import RequestLog, ToldOnce
from speclsp.printable import printable
from speclsp.seam.text import TextRequest, TextResult

MAX_BODY: Final = 16 << 20
"""Most bytes of a request's body."""
BODY_TIMEOUT_S: Final = 30.0
"""Seconds in which a body must have come."""

_CHATS: Final = ("/v1/chat/completions", "/chat/completions", "/api/chat")
_NO_CHAT: Final = "speclsp http completes code and answers no chats: ask a llama-server for them."
_NOT_SUPPORTED: Final = (
    "/slots",
    "/metrics",
    "/embedding",
    "/embeddings",
    "/v1/embeddings",
    "/rerank",
    "/v1/rerank",
    "/v1/responses",
    "/v1/messages",
    "/apply-template",
    "/lora-adapters",
)
"""Endpoints that llama-server has, or has where it is asked to."""

_MAX_NAME: Final = 60
"""Most characters of a field's name in the log."""

_HOST: Final = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^][:%]+))(?::[0-9]*)?")
"""The name or address of a Host header, before its port (RFC 9110, 7.2); it has no zone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Who may ask."""

    key: str = ""
    """The API key; empty for none."""
    origins: tuple[str, ...] = ()
    """Web pages that may ask."""
    hosts: tuple[str, ...] = ()
    """Names of this machine that requests may name, beside loopback addresses."""


class _Guard:
    """An application that answers no request of web pages, for other hosts, or without the key."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse, a request."""
        refusal = _refusal(Request(scope), self._access) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)


def _refusal(request: Request, access: Access) -> Response | None:
    origin = request.headers.get("origin")
    if origin is not None and origin not in access.origins:
        return _error(
            request, f"pages of {printable(origin)} may not ask; name it by --cors-origin.", 403
        )
    if not access.key and not is_known_host(request.headers.get("host", ""), access.hosts):
        return _error(request, "the request is for another host.", 403)
    # Starlette 0.46 makes request.url of the Host header, which may then name another path.
    if access.key and request.scope["path"] not in ("/health", "/v1/health"):
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        given = given or request.headers.get("x-api-key", "")
        if not secrets.compare_digest(given.encode(), access.key.encode()):
            return _error(request, "Invalid API Key", 401, "authentication_error")
    return None


def is_known_host(header: str, hosts: tuple[str, ...]) -> bool:
    """Whether a Host header names a loopback address, or one of ``hosts``."""
    found = _HOST.fullmatch(header.strip().lower())
    if not found:
        return False
    name = found["address"] or found["name"]
    return is_loopback(name) or name in ("localhost.localdomain", *hosts)


def create_app(
    clients: Callable[[], Clients], prompts: PromptTokens, access: Access, *, is_raw: bool = False
) -> Starlette:
    """Return the application; ``clients`` is called once, on its event loop.

    ``is_raw``: whether texts around a cursor are the model's own unless a request says otherwise.
    """
    service = _Service(prompts, is_raw=is_raw)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        service.clients = clients()
        try:
            yield
        finally:
            service.clients.close()

    middleware = [Middleware(_Guard, access)]
    if access.origins:
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(access.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["authorization", "content-type", "x-api-key"],
        )
        middleware.insert(0, cors)
    middleware.insert(0, Middleware(RequestLog))
    return Starlette(
        routes=[
            Route("/infill", service.infill, methods=["POST"]),
            Route("/completion", service.completion, methods=["POST"]),
            Route("/completions", service.completion, methods=["POST"]),
            Route("/v1/completions", service.openai, methods=["POST"]),
            Route("/tokenize", service.tokenize, methods=["POST"]),
            Route("/detokenize", service.detokenize, methods=["POST"]),
            Route("/health", service.health, methods=["GET"]),
            Route("/v1/health", service.health, methods=["GET"]),
            Route("/v1/models", service.models, methods=["GET"]),
            Route("/models", service.models, methods=["GET"]),
            Route("/v1/models/{model:path}", service.model, methods=["GET"]),
            *(Route(path, _no_chat, methods=["POST"]) for path in _CHATS),
            *(Route(path, _not_supported, methods=["GET", "POST"]) for path in _NOT_SUPPORTED),
            Route("/props", service.props, methods=["GET"]),
        ],
        middleware=middleware,
        lifespan=lifespan,
        exception_handlers={
            404: _not_found,
            405: _not_found,
            BodyError: _body_error,
            SpecLspError: _engine_error,
            ClientDisconnect: _gone,
        },
    )


class _Service:
    """The endpoints."""

    clients: Clients

    def __init__(self, prompts: PromptTokens, *, is_raw: bool) -> None:
        self._prompts = prompts
        self._is_raw = is_raw
        self._told = ToldOnce()

    # --- texts ------------------------------------------------------------------------------------

    async def infill(self, request: Request) -> Response:
        """Write the text between what is before and after the cursor."""
        return await self._native(
            request, await self._body(request, partial(infill_body, is_raw=self._is_raw))
        )

    async def completion(self, request: Request) -> Response:
        """Continue prompts as they are."""
        return await self._native(request, await self._body(request, completion_body))

    async def openai(self, request: Request) -> Response:
        """Answer as OpenAI's API does."""
        body = await self._body(request, partial(openai_body, is_raw=self._is_raw))
        answer = answers.OpenAIAnswer(self._prompts)
        if body.request.is_streamed:
            end = b"data: [DONE]\n\n"
            return await self._stream(request, body, answer.part, answer.last, end=end)
        return _response(answer.whole(await self._results(request, body)))

    async def _body(
        self, request: Request, read: Callable[[Mapping[str, Any]], TextBody]
    ) -> TextBody:
        body = read(await _json(request))
        for name in body.ignored:
            shown, path = printable(name[:_MAX_NAME]), request.scope["path"]
            self._told.say((shown, path), "the field %s of %s is ignored.", shown, path)
        return body

    async def _native(self, request: Request, body: TextBody) -> Response:
        if body.request.is_streamed:
            numbers = itertools.count(1)
            return await self._stream(
                request,
                body,
                lambda text, index: answers.native_part(text, next(numbers), index),
                lambda result, index: answers.native(body, result, self._prompts, index=index),
            )
        found = [
            answers.native(body, result, self._prompts, index=index)
            for index, result in enumerate(await self._results(request, body))
        ]
        return _response(found if body.has_many else found[0])

    async def _stream(
        self,
        request: Request,
        body: TextBody,
        part: Callable[[str, int], dict[str, Any]],
        last: Callable[[TextResult, int], dict[str, Any]],
        *,
        end: bytes = b"",
    ) -> Response:
        """Return the events of a text: its parts, its result, and what comes after them."""
        if len(body.prompts) + len(body.prefixes) > 1:
            raise BodyError("several prompts cannot be streamed at once")
        ((text_request, prefix),) = await self._text_requests(body)
        self.clients.check_room()

        async def events() -> AsyncIterator[bytes]:
            try:
                async with self._generating(request, text_request, body, prefix) as generation:
                    async for text in generation.parts():
                        yield _event(part(text, 0))
                    first, *others = await generation.results()
                request.state.n_tokens = _n_tokens([first, *others])
                yield _event(last(first, 0))
                for index, other in enumerate(others, 1):
                    yield _event(part(other.text, index))
                    yield _event(last(other, index))
                if end:
                    yield end
            except SpecLspError as failure:  # told in the stream, since its head has gone
                request.state.refused = str(failure)
                yield _event(answers.error(*_told(failure)))

        return StreamingResponse(events(), media_type="text/event-stream")

    async def _results(self, request: Request, body: TextBody) -> list[TextResult]:
        """Generate the texts, each prompt's in turn; they are cancelled if the client hangs up."""
        results: list[TextResult] = []
        for text_request, prefix in await self._text_requests(body):
            async with self._generating(request, text_request, body, prefix) as generation:
                gone = asyncio.ensure_future(_hung_up(request))
                try:
                    await asyncio.wait(
                        (gone, generation.answered), return_when=asyncio.FIRST_COMPLETED
                    )
                    if not generation.answered.done():
                        raise ClientDisconnect
                    results += await generation.results()
                finally:
                    gone.cancel()
        request.state.n_tokens = _n_tokens(results)
        return results

    async def _text_requests(self, body: TextBody) -> list[tuple[TextRequest, str]]:
        """Return what the engine is asked for, and the text before the cursor, for each text."""
        if not body.prompts:
            return [(body.request, prefix) for prefix in body.prefixes]
        # Long prompts take a second: others are answered meanwhile.
        prompts = [await asyncio.to_thread(self._prompts.tokens, one) for one in body.prompts]
        if not all(prompts):
            raise BodyError('"prompt" must not be empty')
        return [(structs.replace(body.request, prompt=prompt), "") for prompt in prompts]

    @asynccontextmanager
    async def _generating(
        self, request: Request, asked: TextRequest, body: TextBody, prefix: str
    ) -> AsyncIterator[StreamedText]:
        """Generate a text in the window of the request's client."""
        address = request.client.host if request.client is not None else ""
        key = request.headers.get("authorization") or request.headers.get("x-api-key", "")
        name = "\0".join((address, key, request.headers.get("user-agent", "")))
        with self.clients.using(name) as client:
            async with client.generating(asked, body, prefix) as generation:
                yield generation

    # --- the rest ---------------------------------------------------------------------------------

    async def tokenize(self, request: Request) -> Response:
        """Return the tokens of a text."""
        return await asyncio.to_thread(self._tokenized, await _json(request))

    def _tokenized(self, body: dict[str, Any]) -> Response:
        content = body.get("content", "")
        content = content if isinstance(content, str) else ""
        check_length((content,), MAX_PROMPT, "content")
        tokens = self._prompts.tokenize(
            content,
            adds_special=body.get("add_special") is True,
            parses_special=body.get("parse_special") is not False,
        )
        if body.get("with_pieces") is not True:
            return _response({"tokens": tokens})
        pieces = [{"id": token, "piece": _plain(self._prompts.piece(token))} for token in tokens]
        return _response({"tokens": pieces})

    async def detokenize(self, request: Request) -> Response:
        """Return the text of tokens."""
        return await asyncio.to_thread(self._detokenized, await _json(request))

    def _detokenized(self, body: dict[str, Any]) -> Response:
        tokens = body.get("tokens", [])
        if not isinstance(tokens, list) or not all(type(one) is int for one in tokens):
            raise BodyError("tokens must be numbers", status=500, kind="server_error")
        if len(tokens) > MAX_PROMPT:
            raise BodyError(f"tokens: at most {MAX_PROMPT}")
        try:
            text = self._prompts.text(tokens)
        except IndexError as error:
            raise BodyError(str(error), status=500, kind="server_error") from error
        return _response({"content": text})

    async def health(self, _: Request) -> Response:
        """Say whether texts can be asked for: not before the model is loaded."""
        words = {
            "loading": "Loading model",
            "failed": "The model could not be loaded",
            "off": "Completion is switched off",
        }.get(self.clients.engine_state())
        if words is None:
            return _response({"status": "ok"})
        return _response(answers.error(words, 503, "unavailable_error"), 503)

    async def models(self, _: Request) -> Response:
        """Return the one model, in a list."""
        return _response({"object": "list", "data": [self._model()]})

    async def model(self, request: Request) -> Response:
        """Return the model that is named."""
        if request.path_params["model"] == self._prompts.name:
            return _response(self._model())
        words = f"The model is {self._prompts.name}; there is no other one"
        return _error(request, words, 404, "not_found_error")

    def _model(self) -> dict[str, Any]:
        own = {"id": self._prompts.name, "object": "model", "created": 0, "owned_by": "speclsp"}
        return {**own, "meta": {"n_vocab": self._prompts.n_vocab}}

    async def props(self, _: Request) -> Response:
        """Return what clients ask of llama-server's properties."""
        name = self._prompts.name
        return _response({"total_slots": 1, "model_alias": name, "model_path": name})


async def _json(request: Request) -> dict[str, Any]:
    """Read a body of at most ``MAX_BODY`` bytes.  Raises BodyError."""
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in request.stream():
                data += part
                if len(data) > MAX_BODY:
                    raise BodyError(f"the body has more than {MAX_BODY} bytes", status=413)
    except TimeoutError as error:
        raise BodyError("the body did not come in time", status=408) from error
    return read_json(bytes(data))


async def _hung_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _n_tokens(results: list[TextResult]) -> int:
    return sum(result.stats.n_predicted for result in results)


def _told(failure: SpecLspError) -> tuple[str, int, str]:
    """Return an error's words, status and kind."""
    if isinstance(failure, RequestError):
        return failure.message, 400, "invalid_request_error"
    if isinstance(failure, EngineUnavailableError):
        return str(failure), 503, "unavailable_error"
    return str(failure), 500, "server_error"


def _plain(piece: bytes) -> str | list[int]:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)


def _event(answer: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(answer) + b"\n\n"


def _response(answer: Any, status: int = 200) -> Response:
    body = msgspec.json.encode(answer)
    return Response(body, status, media_type="application/json; charset=utf-8")


def _error(request: Request, message: str, status: int, kind: str = "permission_error") -> Response:
    request.state.refused = message
    return _response(answers.error(message, status, kind), status)


async def _not_supported(request: Request) -> Response:
    words = f"speclsp http completes code and has no {request.scope['path']}."
    return _error(request, words, 501, "not_supported_error")


async def _no_chat(request: Request) -> Response:
    """Refuse a chat; plugins that wait for a message whatever the status get the words in it."""
    words = f"{_NO_CHAT} It has /infill, /completion and /v1/completions."
    request.state.refused = words
    choice = {"index": 0, "message": {"role": "assistant", "content": words}}
    error = answers.error(words, 501, "not_supported_error")
    return _response({**error, "choices": [{**choice, "finish_reason": "stop"}]}, 501)


async def _not_found(request: Request, _: Exception) -> Response:
    return _error(request, "File Not Found", 404, "not_found_error")


async def _body_error(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, BodyError)
    return _error(request, str(failure), failure.status, failure.kind)


async def _engine_error(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, SpecLspError)
    return _error(request, *_told(failure))


async def _gone(_: Request, __: Exception) -> Response:
    return Response(status_code=499)
