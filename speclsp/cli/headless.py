"""The headless protocol: JSON-RPC methods that complete without an editor.

Calls run one after another in the order of their arrival, so that the same input gives the same
output.  Only ``cancel`` and errors are answered at once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import cattrs
import click
import msgspec
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams, JsonRpcMethodNotFound
from pygls.protocol import JsonRPCRequestMessage
from pygls.server import JsonRPCServer

from speclsp import settings
from speclsp.cli.without_editor import NO_DEADLINE_MS, complete_when_ready, edit_of, shown_timings
from speclsp.completer.accepted import is_learned
from speclsp.errors import SpecLspError
from speclsp.rpc.connection import JsonRpcConnection, MessageId
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completion import CompletionRequest, CompletionResult, GeneratedText, Trigger
from speclsp.seam.documents import AcceptedText, Document
from speclsp.seam.edit import EditRequest, EditResult
from speclsp.window.ledger import CONTEXT_LINES
from speclsp.window.window import Window

MAX_OPEN_DOCUMENTS = 32
MAX_COMPLETED = 256
"""Latest completions that ``accepted`` knows by their requests' ids."""

ENGINE_ERROR = -32000
"""The engine cannot answer, or a file of ours is broken; ``data.remedy`` says what to do."""

_PLACE = re.compile(r" - at `\$(?P<place>[^`]*)`")
_SNAKE = re.compile(r"(?=[A-Z])")
_FIELD = re.compile(r"field `(?P<field>[^`]*)`")

# --- params ---------------------------------------------------------------------------------------

REQUEST_SETTINGS = (
    "max_lines",
    "n_predict",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "seed",
    "deadline_ms",
)
"""Settings that a request may override, with the types and bounds of the settings' table."""

CompleteParams = msgspec.defstruct(
    "CompleteParams",
    [
        ("prefix", str),
        ("suffix", str, ""),
        ("path", str, ""),
        ("repo_name", str | None, None),
        ("language_id", str, ""),
        ("single_line", bool | None, None),
        ("n_candidates", settings.TYPES["n_candidates"], 1),
        ("trigger", Trigger, "invoked"),
        *((name, settings.TYPES[name] | None, None) for name in REQUEST_SETTINGS),
    ],
    rename="camel",
    forbid_unknown_fields=True,
    frozen=True,
)
"""The params of ``complete``; None takes the settings' value.

A program that sends a request wants an answer, so ``trigger`` is ``invoked`` by default.
"""

NextEditParams = msgspec.defstruct(
    "NextEditParams",
    [
        ("text", str),
        ("offset", int),
        ("path", str, ""),
        ("language_id", str, ""),
        ("before", list[str], msgspec.field(default_factory=list)),
        ("deadline_ms", settings.TYPES["deadline_ms"] | None, None),
    ],
    rename="camel",
    forbid_unknown_fields=True,
    frozen=True,
)
"""The params of ``nextEdit``; ``before`` are the file's texts before its latest changes."""

AcceptedParams = msgspec.defstruct(
    "AcceptedParams",
    [("id", MessageId | None, None), ("text", str, ""), ("prefix", str, ""), ("path", str, "")],
    forbid_unknown_fields=True,
    frozen=True,
)
"""The params of ``accepted``: the ``id`` of a completed request, or a text and where it went."""

_NO_PARAMS = msgspec.defstruct("NoParams", [], forbid_unknown_fields=True)
METHODS: dict[str, type[Any]] = {
    "complete": CompleteParams,
    "nextEdit": NextEditParams,
    "accepted": AcceptedParams,
    "cancel": msgspec.defstruct("CancelParams", [("id", MessageId)], forbid_unknown_fields=True),
    "statistics": _NO_PARAMS,
    "shutdown": _NO_PARAMS,
}
"""Each method's params."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlessOptions:
    """What the command line sets for all requests."""

    project: Path | None = None
    repo_name: str = ""
    deadline_ms: int = NO_DEADLINE_MS
    masks: bool = True
    """Whether texts with secrets are not learned."""
    show_timings: bool = False
    """Print llama.cpp's lines on times to standard error after each answer of the model."""


# --- the connection -------------------------------------------------------------------------------


class HeadlessConnection(JsonRpcConnection):
    """The connection of a program that writes requests to a pipe."""

    accepts_batches = True

    def __init__(self, server: JsonRPCServer, converter: cattrs.Converter) -> None:
        self.cancellations: dict[MessageId, CancellationToken] = {}
        """Of each ``complete`` that is not answered."""
        super().__init__(server, converter)

    def check_request(self, method: str) -> None:
        """Raise JsonRpcMethodNotFound, which names the methods."""
        if method not in METHODS:
            raise JsonRpcMethodNotFound(
                f"unknown method {method!r}; the methods are {', '.join(METHODS)}"
            )

    def is_request(self, method: str) -> bool:  # noqa: ARG002
        """Return True: all methods are."""
        return True

    def accepts_notification(self, method: str) -> bool:
        """Return whether a call without an id is run; the others would only compute an answer."""
        if self.shutting_down:
            return False
        self.shutting_down = method == "shutdown"
        return method in {"cancel", "shutdown"}

    def structure_params(self, method: str, params: Any) -> Any:
        """Return params as the method's type; no params are an empty object.

        Raises JsonRpcInvalidParams, whose ``data.field`` names the wrong field.
        """
        try:
            return msgspec.convert({} if params is None else params, METHODS[method])
        except msgspec.ValidationError as error:
            text = str(error)
            place, inner = _PLACE.search(text), _FIELD.search(text)
            field = "$.params" + (place["place"] if place else "")
            field += f".{inner['field']}" if inner else ""
            raise JsonRpcInvalidParams(
                f"invalid params: {field}: {_PLACE.sub('', text)}", data={"field": field}
            ) from error

    def begin(self, request: JsonRPCRequestMessage) -> None:
        """Make what ``cancel`` cancels the request by, and call its handler."""
        if request.method in {"complete", "nextEdit"}:
            self.cancellations[request.id] = CancellationToken()
        super().begin(request)

    async def close(self) -> int:
        """Wait until every request is answered; 1 if nobody reads the answers, else 0."""
        while still_open := [f for f in self._request_futures.values() if not f.done()]:
            await asyncio.wait(cast("list[asyncio.Future[Any]]", still_open))
        await asyncio.sleep(0)  # lets the last answers go out
        return 1 if self.abandoned else 0


class HeadlessServer(JsonRPCServer):
    """The methods' handlers, for one connection."""

    protocol: HeadlessConnection

    def __init__(self, window: Window, options: HeadlessOptions) -> None:
        super().__init__(HeadlessConnection, cattrs.Converter)
        self._window = window
        self._options = options
        self._turn = asyncio.Lock()
        """Acquired by the handlers in the order of the calls' arrival."""
        self._open_documents: dict[str, int] = {}
        self._completed: dict[MessageId, AcceptedText] = {}
        """What would be learned if a request's completion was accepted."""
        self._n_learned = self._n_learned_chars = 0
        for method in METHODS:
            # pygls sets attributes on handlers, which bound methods do not allow.
            self.feature(method)(partial(getattr(self, f"_{_SNAKE.sub('_', method).lower()}")))

    async def _complete(self, params: Any) -> dict[str, Any]:
        """Complete as soon as the model is loaded."""
        async with self._answering() as (msg_id, cancel):
            result = await asyncio.to_thread(self._result, params, cancel)
            cancelled = cancel.cancelled
        if text := result.generated.text:
            self._completed[msg_id] = self._accepted_text(params, text)
            while len(self._completed) > MAX_COMPLETED:
                del self._completed[next(iter(self._completed))]
        return completion_object(result, cancelled=cancelled, n_candidates=params.n_candidates)

    async def _next_edit(self, params: Any) -> dict[str, Any]:
        """Return the next edit as soon as the model is loaded."""
        async with self._answering() as (_, cancel):
            try:
                request = self._open_edited(params)
                result = await self._window.next_edits.next_edit(request, cancel)
                return edit_object(result, params.text)
            finally:
                self._close_documents()

    @asynccontextmanager
    async def _answering(self) -> AsyncIterator[tuple[MessageId, CancellationToken]]:
        """Wait for the turn of this request; yield its id and its cancellation."""
        msg_id = self.protocol.msg_id
        assert msg_id is not None
        cancel = self.protocol.cancellations[msg_id]
        try:
            async with self._turn:
                yield msg_id, cancel
        except SpecLspError as error:
            data = {"type": type(error).__name__, "remedy": error.remedy}
            raise JsonRpcException(str(error), ENGINE_ERROR, data) from error
        finally:
            cancel.cancel()  # this task was cancelled where nobody reads the answers
            # From here on ``cancel`` answers false.
            del self.protocol.cancellations[msg_id]

    def _open_edited(self, params: Any) -> EditRequest:
        """Open the document of a request, and make its earlier changes."""
        if not 0 <= params.offset <= len(params.text):
            raise JsonRpcInvalidParams(
                f"invalid params: $.params.offset: the text has {len(params.text)} characters",
                data={"field": "$.params.offset"},
            )
        texts = [*params.before, params.text]
        uri, version = self._open_document(params, texts, self._options.repo_name)
        return EditRequest(
            uri=uri,
            version=version,
            offset=params.offset,
            settings={"deadline_ms": params.deadline_ms or self._options.deadline_ms},
            origin="program",
            wait_for_model=True,
        )

    def _result(self, params: Any, cancel: CancellationToken) -> CompletionResult:
        try:
            request = self._open(params)
            result = complete_when_ready(self._window, request, cancel)
        finally:
            self._close_documents()
        if self._options.show_timings and result is not None:
            click.echo(shown_timings(result.stats), err=True)
        return result or request.empty("cancelled")

    async def _accepted(self, params: Any) -> dict[str, int]:
        """Draft from a text from now on; return how many of its characters were taken in."""
        async with self._turn:
            if params.id is None:
                accepted = self._accepted_text(params, params.text)
            else:
                known = self._completed.pop(params.id, None)
                if known is None:
                    raise JsonRpcInvalidParams(
                        f"invalid params: $.params.id: request {params.id!r} has no completion "
                        "that can be accepted; send its text instead",
                        data={"field": "$.params.id"},
                    )
                accepted = replace(known, text=params.text) if params.text else known
            if not is_learned(accepted, masks=self._options.masks):
                return {"nChars": 0}
            self._window.completer.learn(accepted)
            self._n_learned += 1
            self._n_learned_chars += len(accepted.text)
            return {"nChars": len(accepted.text)}

    def _accepted_text(self, params: Any, text: str) -> AcceptedText:
        before = "".join(params.prefix.splitlines(keepends=True)[-CONTEXT_LINES:])
        return AcceptedText(
            path=params.path, file=self._file(params.path), before=before, text=text
        )

    def _cancel(self, params: Any) -> dict[str, bool]:
        """Cancel a ``complete`` that is not answered; it still gets its result."""
        token = self.protocol.cancellations.get(params.id)
        if token is not None:
            token.cancel()
        return {"cancelled": token is not None}

    async def _statistics(self, _: Any) -> Any:
        """Return the session's sums, with all calls before this one."""
        async with self._turn:
            sums: dict[str, Any] = json_value(self._window.statistics())
            if self._n_learned:
                sums["learned"] = {"nTexts": self._n_learned, "nChars": self._n_learned_chars}
            return sums

    async def _shutdown(self, _: Any) -> None:
        """End the process once all calls before this one are answered."""
        async with self._turn:
            self.protocol.exit()

    def _open(self, params: Any) -> CompletionRequest:
        """Open the document of a request."""
        own = {name: getattr(params, name) for name in REQUEST_SETTINGS}
        own = {name: value for name, value in own.items() if value is not None}
        if params.single_line is not None:
            own["multiline"] = "never" if params.single_line else "always"
        repo_name = self._options.repo_name if params.repo_name is None else params.repo_name
        uri, version = self._open_document(params, [params.prefix + params.suffix], repo_name)
        return CompletionRequest(
            uri=uri,
            version=version,
            offset=len(params.prefix),
            settings={"deadline_ms": self._options.deadline_ms, **own},
            origin="program",
            trigger=params.trigger,
            n_candidates=params.n_candidates,
        )

    def _open_document(self, params: Any, texts: list[str], repo_name: str) -> tuple[str, int]:
        """Open a document that becomes each of ``texts``; return its URI and version.

        While it is open, its text replaces the file's.
        """
        file = self._file(params.path)
        uri = Path(file).as_uri() if file else f"headless:{params.path}"
        first = self._open_documents.pop(uri, 0) + 1
        last = self._open_documents[uri] = first + len(texts) - 1
        self._window.open_document(
            Document(
                uri=uri,
                path=params.path,
                file=file,
                repo_name=repo_name,
                language_id=params.language_id,
                version=first,
                text=texts[0],
            )
        )
        for version, text in enumerate(texts[1:], first + 1):
            self._window.change_document(uri, version, text)
        return uri, last

    def _close_documents(self) -> None:
        """Close the documents; those of a project stay open, up to MAX_OPEN_DOCUMENTS.

        Their files may hold the answer already, and must not be indexed between two requests.
        """
        n_kept = MAX_OPEN_DOCUMENTS if self._options.project is not None else 0
        while len(self._open_documents) > n_kept:
            oldest = next(iter(self._open_documents))
            del self._open_documents[oldest]
            self._window.close_document(oldest)

    def _file(self, path: str) -> str:
        """Return the absolute path of a request's file, empty where it has none."""
        if self._options.project is None or not path or "\0" in path:
            return ""
        return os.path.abspath(self._options.project / path)  # noqa: PTH100  .. goes, links stay


# --- results --------------------------------------------------------------------------------------

_STATS = (
    "n_prompt",
    "n_prompt_evaluated",
    "n_predicted",
    "n_target_passes",
    "n_drafted",
    "n_accepted",
    "drafters",
    "ms_prompt",
    "ms_predict",
    "ms_draft",
)
_DRAFTER_STATS = ("n_drafts", "n_drafted", "n_accepted")
_EDIT = (
    "hunks",
    "is_far",
    "probability",
    "divergences",
    "withheld",
    "finish_reason",
    "stats",
)


def edit_object(result: EditResult, text: str) -> dict[str, Any]:
    """Return the JSON object of an edit of a text; ``edit`` is null where there is none."""
    edit = json_value(edit_of(result, text))
    return {"id": result.completion_id, "edit": edit, **json_value(result, _EDIT)}


def completion_object(
    result: CompletionResult, *, cancelled: bool, n_candidates: int
) -> dict[str, Any]:
    """Return the result of ``complete``.

    A request whose cancellation was confirmed says so, even if it had just ended otherwise.
    If more than one of ``n_candidates`` was asked for, the result holds the alternatives, and how
    probable each text is.  What a text replaces is always there: who inserts it and leaves these
    characters doubles them.
    """
    stats = json_value(result.stats, _STATS)
    stats["drafters"] = {
        name: json_value(drafter, _DRAFTER_STATS) for name, drafter in result.stats.drafters.items()
    }
    made: dict[str, Any] = {
        "text": result.generated.text,
        "nReplaced": result.generated.n_replaced,
        "finishReason": "cancelled" if cancelled else result.generated.finish_reason,
        "stats": stats,
    }
    if n_candidates > 1:
        made |= _text_object(result.generated)
        made["alternatives"] = [_text_object(other) for other in result.alternatives]
    return made


def _text_object(text: GeneratedText) -> dict[str, Any]:
    mean = text.mean_logprob
    return {
        "text": text.text,
        "nReplaced": text.n_replaced,
        "meanLogprob": None if mean is None else round(mean, 4),
    }


def json_value(value: Any, names: tuple[str, ...] = ()) -> Any:
    """Return plain data for JSON: of an object the fields ``names``; none mean all of a dataclass.

    Fields' names become camel case.  The keys of dicts are data, such as drafters' names, and stay.
    """
    if not names and dataclasses.is_dataclass(value):
        names = tuple(row.name for row in dataclasses.fields(value))
    if names:
        return {_camel_case(name): json_value(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {key: json_value(member) for key, member in value.items()}
    if isinstance(value, tuple | list):
        return [json_value(member) for member in value]
    return round(value, 3) if isinstance(value, float) else value


def _camel_case(name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)
