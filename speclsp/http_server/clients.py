"""The engine's windows for programs: one for each client, with documents of its own.

A client is told from others by its address, its key and its name (User-Agent).  Its window drafts
from its own texts and from the projects of the command line, never from another client's.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from array import array
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from typing import Final

from msgspec import structs

from speclsp.common_ends import common_head
from speclsp.errors import EngineUnavailableError, SpecLspError
from speclsp.event_loop import post
from speclsp.http_server.bodies import TextBody
from speclsp.seam.cancellation import CancellationToken
from speclsp.seam.completer import Completer
from speclsp.seam.documents import Document, WorkspaceFolder, edit_between
from speclsp.seam.event_pump import EventPump
from speclsp.seam.events import Event, Problem, TextGrew
from speclsp.seam.statistics import EngineState
from speclsp.seam.text import TextRequest, TextResult

logger = logging.getLogger(__name__)

MAX_CLIENTS: Final = 32
"""Most clients with a window; the one that asked longest ago loses its window."""
MAX_AT_ONCE: Final = 128
"""Most texts that are asked for at once."""
_NUMBERS: Final = itertools.count(1)
_DEADLINE_MS: Final = 3_600_000
"""Programs say themselves how long they wait, and hang up."""
_MAX_OWN: Final = 16
"""Earlier texts of which a program is told how much was in the KV cache."""


class StreamedText:
    """A text that is being generated for a program."""

    def __init__(self, request_id: str, own: deque[array[int]]) -> None:
        """``own`` are the tokens of the program's earlier texts with their prompts."""
        self.request_id = request_id
        self._own = own
        self.cancel = CancellationToken()
        self._told = 0
        self._parts: asyncio.Queue[TextGrew | None] = asyncio.Queue()
        self.answered: asyncio.Future[TextResult]

    def take(self, part: TextGrew | None) -> None:
        """Take a part of the text, or None at its end; on the event loop."""
        self._parts.put_nowait(part)

    async def parts(self) -> AsyncIterator[str]:
        """Iterate over the text as it grows; raises what :meth:`results` does."""
        while (part := await self._parts.get()) is not None:
            # An event may be lost: what is missing comes with the rest.
            if part.start == self._told:
                self._told += len(part.text)
                yield part.text
        result = await self._result()
        if rest := result.text[self._told :]:
            yield rest

    async def results(self) -> list[TextResult]:
        """Return the text and others in its place, once.

        Raises what the completer's future does, and EngineUnavailableError where the engine ended
        or has only a newer request's text.
        What others' prompts left in the KV cache counts as evaluated: the number of cached tokens
        would tell them, a token at a time.
        """
        result = await self._result()
        stats = result.stats
        n_own = max((common_head(known, result.prompt) for known in self._own), default=0)
        self._own.appendleft(array("i", (*result.prompt, *result.tokens)))
        n_evaluated = max(stats.n_prompt_evaluated, stats.n_prompt - n_own)
        told = replace(stats, n_prompt_evaluated=n_evaluated)
        return [structs.replace(result, stats=told, others=()), *result.others]

    async def _result(self) -> TextResult:
        result = await self.answered
        if result.finish_reason == "cancelled" and not self.cancel.cancelled:
            raise EngineUnavailableError("the engine ended or was started meanwhile; ask again.")
        return result


class Client:
    """One program's window."""

    def __init__(
        self,
        completer: Completer,
        folders: Sequence[WorkspaceFolder],
        tell: Callable[[Problem], None],
    ) -> None:
        """``tell`` takes problems of the engine, on the event loop."""
        # Windows of one engine have documents of different URIs.
        number = next(_NUMBERS)
        self._uri, self._prediction_uri = f"http:{number}", f"http:{number}/prediction"
        self._completer = completer
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._running: dict[str, StreamedText] = {}
        self._document: Document | None = None
        """What the latest request holds."""
        self._prediction = ""
        self._own: deque[array[int]] = deque(maxlen=_MAX_OWN)
        self._n_requests = 0
        self.n_users = 0
        """Requests that are being answered; while there are any, the window stays."""
        completer.start()
        for folder in folders:
            completer.open_folder(folder)
        EventPump(completer, self._deliver)

    @property
    def engine_state(self) -> EngineState:
        """The engine's state, as it is told to this window."""
        return self._completer.state()

    @asynccontextmanager
    async def generating(
        self, request: TextRequest, body: TextBody, prefix: str
    ) -> AsyncIterator[StreamedText]:
        """Generate a text; leaving the block cancels it.

        ``request`` lacks its document, which holds ``prefix`` and the suffix of ``body``.
        """
        self._n_requests += 1
        self._predict(body.prediction)
        generation = StreamedText(str(self._n_requests), self._own)
        document = self._become(prefix + body.suffix)
        request = structs.replace(
            request,
            uri=document.uri,
            version=document.version,
            offset=len(prefix),
            completion_id=generation.request_id,
            settings={**request.settings, "deadline_ms": _DEADLINE_MS},
        )
        self._running[generation.request_id] = generation
        try:
            future = self._completer.submit(request, generation.cancel)
            generation.answered = asyncio.wrap_future(future)
            generation.answered.add_done_callback(lambda _done: generation.take(None))
            yield generation
        finally:
            generation.cancel.cancel(for_good=True)
            del self._running[generation.request_id]
            if document.uri != self._uri:
                self._completer.close_document(document.uri)

    def close(self) -> None:
        """Close the window."""
        self._completer.close()

    def _become(self, text: str) -> Document:
        former = self._document
        if former is None:
            document = Document(uri=self._uri, text=text)
            self._completer.open_document(document)
        elif text == former.text:
            return former
        elif self._running and self.engine_state != "ready":
            # A new engine gets a document's newest version only.
            document = Document(uri=f"{self._uri}/{self._n_requests}", text=text)
            self._completer.open_document(document)
            return document
        else:
            document = replace(former, version=former.version + 1, text=text)
            self._completer.change_document(document, edit_between(former.text, text))
        self._document = document
        return document

    def _predict(self, text: str) -> None:
        """Let drafts come from a text that the answer may repeat."""
        if text != self._prediction:
            self._prediction = text
            if text:
                self._completer.open_document(Document(uri=self._prediction_uri, text=text))
            else:
                self._completer.close_document(self._prediction_uri)

    def _deliver(self, event: Event) -> None:
        if isinstance(event, TextGrew):
            post(self._loop, self._take, event)
        elif isinstance(event, Problem):
            post(self._loop, self._tell, event)

    def _take(self, event: TextGrew) -> None:
        generation = self._running.get(event.completion_id)
        if generation is not None:
            generation.take(event)


class Clients:
    """All clients' windows."""

    def __init__(
        self,
        make_completer: Callable[[], Completer],
        close_engine: Callable[[], None],
        folders: Sequence[WorkspaceFolder],
    ) -> None:
        """``close_engine`` is called when all windows are closed."""
        self._make_completer = make_completer
        self._close_engine = close_engine
        self._folders = folders
        self._clients: OrderedDict[str, Client] = OrderedDict()
        self._is_loaded = False
        self._problems: set[str] = set()
        self._spare: Client | None = self._new_client()
        """The window of the first client; it loads the models before there is one."""

    def engine_state(self) -> EngineState:
        """Return the engine's state; ``ready`` also after idle time, when a request loads it."""
        client = self._spare or next(reversed(self._clients.values()))
        state = client.engine_state
        self._is_loaded = self._is_loaded or state in ("ready", "unloaded")
        return "ready" if self._is_loaded and state in ("loading", "unloaded") else state

    def check_room(self) -> None:
        """Raise EngineUnavailableError where too many texts are asked for already."""
        if sum(client.n_users for client in self._clients.values()) >= MAX_AT_ONCE:
            raise EngineUnavailableError(f"{MAX_AT_ONCE} texts are asked for already.")

    @contextmanager
    def using(self, name: str) -> Iterator[Client]:
        """Let a request use a client's window, which is made where there is none.

        It stays until the block is left.  Raises EngineUnavailableError where there is no room.
        """
        self.check_room()
        client = self._clients.pop(name, None)
        if client is None:
            client, self._spare = self._spare, None
        if client is None:
            client = self._new_client()
        self._clients[name] = client
        client.n_users += 1
        try:
            self._close_oldest()
            yield client
        finally:
            client.n_users -= 1
            self._close_oldest()

    def _new_client(self) -> Client:
        return Client(self._make_completer(), self._folders, self._log)

    def _log(self, problem: Problem) -> None:
        """Log a problem, which every window is told, once."""
        if problem.message not in self._problems:
            self._problems.add(problem.message)
            logger.error("%s", f"{problem.message} {problem.remedy}".strip())

    def _close_oldest(self) -> None:
        idle = [name for name, client in self._clients.items() if not client.n_users]
        for name in idle[: max(0, len(self._clients) - MAX_CLIENTS)]:
            self._clients.pop(name).close()

    def close(self) -> None:
        """Close all windows, and the engine."""
        for client in (*self._clients.values(), *filter(None, [self._spare])):
            with suppress(SpecLspError):
                client.close()
        self._clients.clear()
        self._close_engine()
