"""The headless protocol: what the methods mean, apart from how their bytes travel.

Calls are worked on one after another in the order of their arrival, so that the same input gives
the same output.  ``cancel`` alone is answered at once.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from speclsp.cancellation import CancellationToken
from speclsp.cli import json_rpc
from speclsp.cli.headless_params import METHODS, REQUEST_SETTINGS
from speclsp.cli.json_rpc import Call, CallId, RpcError
from speclsp.cli.replies import Answer, Batch, Write, silent, single
from speclsp.cli.result_objects import completion_object, session_object
from speclsp.cli.waiting import complete_when_ready
from speclsp.errors import SpecLspError
from speclsp.request import CompletionRequest, Document
from speclsp.seam import Completer

NO_DEADLINE_MS = 7 * 24 * 3600 * 1000
"""A request from a pipe waits for its end, unless a deadline was asked for."""

MAX_OPEN_DOCUMENTS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadlessOptions:
    """What the command line says of all requests."""

    project: Path | None = None
    repo_name: str = ""
    deadline_ms: int = NO_DEADLINE_MS


@dataclass(slots=True)
class _Job:
    method: str
    id: CallId | None
    params: Any
    answer: Answer
    cancel: CancellationToken = field(default_factory=CancellationToken)


class HeadlessSession:
    """Takes messages on one thread (:meth:`receive`) and works on them on another (:meth:`run`).

    ``write`` gets each message to send, from either thread.
    ``report`` gets exceptions that are bugs of ours; the call is answered all the same.
    """

    def __init__(
        self,
        completer: Completer,
        options: HeadlessOptions,
        *,
        write: Write,
        report: Callable[[BaseException], None],
    ) -> None:
        self._completer = completer
        self._options = options
        self._write = write
        self._report = report
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._unanswered: dict[CallId, _Job] = {}
        self._lock = threading.Lock()
        self._open_documents: dict[str, int] = {}
        self._closing = False

    # --- the reading side -----------------------------------------------------------------------

    def receive(self, body: bytes) -> bool:
        """Take one message; returns False after ``shutdown``, when no more is to be read.

        Whatever the message is, and whatever is wrong with this program, it does not raise.
        """
        try:
            return self._receive(body)
        except Exception as error:  # noqa: BLE001  # a bug of ours: reported, and the rest goes on
            self._write(json_rpc.error_object(None, self._internal_error(error)))
            return True

    def _receive(self, body: bytes) -> bool:
        try:
            value = json_rpc.parse(body)
        except RpcError as error:
            self._write(json_rpc.error_object(None, error))
            return True
        if isinstance(value, list) and value:
            batch = Batch(len(value), self._write)
            for member in value:
                self._receive_call(member, batch.answer)
        else:
            self._receive_call(value, single(self._write))
        return not self._closing

    def reject(self, reason: str) -> None:
        """Answer bytes that are no message."""
        error = RpcError(json_rpc.PARSE_ERROR, f"Parse error: {reason}")
        self._write(json_rpc.error_object(None, error))

    def end_of_input(self) -> None:
        """No more messages come: :meth:`run` returns when all are answered."""
        self._jobs.put(None)

    def cancel_all(self) -> None:
        """Cancel whatever is unanswered, because nobody reads the answers any more."""
        with self._lock:
            for job in self._unanswered.values():
                job.cancel.cancel()

    def _receive_call(self, value: Any, answer: Answer) -> None:
        try:
            call = json_rpc.read_call(value)
        except RpcError as error:
            answer(json_rpc.error_object(json_rpc.call_id(value), error))
            return
        id_ = None if isinstance(call.id, msgspec.UnsetType) else call.id
        reply = answer if id_ is not None else silent(answer)
        try:
            self._accept_call(call, id_, reply)
        except RpcError as error:
            reply(json_rpc.error_object(id_, error))
        except Exception as error:  # noqa: BLE001  # a bug of ours: the others go on
            reply(json_rpc.error_object(id_, self._internal_error(error)))

    def _accept_call(self, call: Call, id_: CallId | None, answer: Answer) -> None:
        params_type = METHODS.get(call.method)
        if params_type is None:
            raise RpcError(
                json_rpc.METHOD_NOT_FOUND,
                f"Unknown method {call.method!r}; the methods are {', '.join(METHODS)}.",
                {"method": call.method},
            )
        params: Any = json_rpc.read_params(call, params_type)
        if call.method == "cancel":
            answer(json_rpc.result_object(id_, {"cancelled": self._cancel(params.id)}))
        elif id_ is None and call.method != "shutdown":
            answer(None)  # nobody would get what it asks for
        else:
            job = _Job(call.method, id_, params, answer)
            self._remember(job)
            self._closing = self._closing or call.method == "shutdown"
            self._jobs.put(job)

    def _remember(self, job: _Job) -> None:
        if job.id is None:
            return
        with self._lock:
            if job.id in self._unanswered:
                raise RpcError(
                    json_rpc.INVALID_REQUEST,
                    f"Invalid request: $.id: {job.id!r} is a request that is not answered yet.",
                    {"field": "$.id"},
                )
            self._unanswered[job.id] = job

    def _cancel(self, id_: CallId) -> bool:
        with self._lock:
            job = self._unanswered.get(id_)
            if job is None or job.method != "complete":
                return False
            job.cancel.cancel()
            return True

    # --- the working side -----------------------------------------------------------------------

    def run(self) -> None:
        """Work on the calls until ``shutdown`` or the end of the input, all answered."""
        while (job := self._jobs.get()) is not None:
            job.answer(self._outcome(job))
            if job.method == "shutdown":
                return

    def _outcome(self, job: _Job) -> dict[str, Any]:
        try:
            return json_rpc.result_object(job.id, self._result(job))
        except SpecLspError as error:
            return json_rpc.error_object(job.id, json_rpc.engine_error(error))
        except Exception as error:  # noqa: BLE001  # a bug of ours: reported, and the rest goes on
            return json_rpc.error_object(job.id, self._internal_error(error))
        finally:
            self._forget(job)

    def _internal_error(self, error: Exception) -> RpcError:
        self._report(error)
        text = f"Internal error: {type(error).__name__}: {error}."
        return RpcError(json_rpc.INTERNAL_ERROR, text)

    def _result(self, job: _Job) -> Any:
        if job.method == "complete":
            return self._complete(job)
        if job.method == "statistics":
            return session_object(self._completer.statistics())
        return None

    def _complete(self, job: _Job) -> dict[str, Any]:
        request = self._request(job.params)
        if self._options.project is not None:
            self._show_document(request)
        result = complete_when_ready(self._completer, request, job.cancel)
        # From here on ``cancel`` answers false, so what it promised until now is known.
        self._forget(job)
        return completion_object(
            result, cancelled=job.cancel.cancelled, n_candidates=request.n_candidates
        )

    def _forget(self, job: _Job) -> None:
        with self._lock:
            if job.id is not None and self._unanswered.get(job.id) is job:
                del self._unanswered[job.id]

    def _request(self, params: Any) -> CompletionRequest:
        overrides = {name: getattr(params, name) for name in REQUEST_SETTINGS}
        if overrides["deadline_ms"] is None:
            overrides["deadline_ms"] = self._options.deadline_ms
        return CompletionRequest(
            uri=self._uri(params.path),
            file=self._file(params.path),
            path=params.path,
            repo_name=self._options.repo_name if params.repo_name is None else params.repo_name,
            prefix=params.prefix,
            suffix=params.suffix,
            language_id=params.language_id,
            single_line=params.single_line,
            supersede=False,
            trigger=params.trigger,
            n_candidates=params.n_candidates,
            **overrides,
        )

    def _uri(self, path: str) -> str:
        if self._options.project is None or not path:
            return f"headless:{path}"
        return (self._options.project / path).absolute().as_uri()

    def _file(self, path: str) -> str:
        """Return the absolute path of the file that a request is about, empty where it has none."""
        if self._options.project is None or not path or "\0" in path:
            return ""
        return os.path.abspath(self._options.project / path)  # noqa: PTH100  .. goes, links stay

    def _show_document(self, request: CompletionRequest) -> None:
        """Let the request's text stand for the file, which may already hold the answer."""
        version = self._open_documents.pop(request.uri, 0) + 1
        self._open_documents[request.uri] = version
        document = Document(
            uri=request.uri,
            path=request.path,
            file=request.file,
            language_id=request.language_id,
            version=version,
            text=request.prefix + request.suffix,
        )
        if version > 1:
            self._completer.change_document(document)
            return
        self._completer.open_document(document)
        if len(self._open_documents) > MAX_OPEN_DOCUMENTS:
            oldest = next(iter(self._open_documents))
            del self._open_documents[oldest]
            self._completer.close_document(oldest)
