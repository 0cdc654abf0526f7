"""One connection to a server of this machine, over which JSON goes and comes."""

from __future__ import annotations

import http.client
from typing import Any, Final

import msgspec

from benchmarks.peers.serving_process import ANSWERS_WITHIN_S
from speclsp.errors import EngineError, EngineUnavailableError

_OK: Final = 200
_N_SHOWN: Final = 500


class JsonConnection:
    """A connection that is kept between requests, and opened anew where the server closed it."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWERS_WITHIN_S)

    def is_ready(self, path: str) -> bool:
        """Whether a GET is answered with 200."""
        try:
            self._connection.request("GET", path)
            response = self._connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return False
        return response.status == _OK

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Send an object and return the one that comes back.

        Raises :class:`~speclsp.errors.EngineUnavailableError` where the server cannot be reached,
        and :class:`~speclsp.errors.EngineError` where it refuses.
        """
        content = msgspec.json.encode(body)
        try:
            status, answer = self._exchange(path, content)
        except (http.client.RemoteDisconnected, ConnectionError):
            # Servers close connections that rested, and after so many requests.
            status, answer = self._exchange_anew(path, content)
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(error) from error
        if status != _OK:
            said = answer.decode("utf-8", "replace")[:_N_SHOWN]
            raise EngineError(f"the server refuses a request with status {status}: {said}")
        try:
            return msgspec.json.decode(answer, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise EngineError(f"the server's answer is not JSON: {error}.") from error

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _exchange_anew(self, path: str, content: bytes) -> tuple[int, bytes]:
        try:
            return self._exchange(path, content)
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(error) from error

    def _exchange(self, path: str, content: bytes) -> tuple[int, bytes]:
        try:
            self._connection.request(
                "POST", path, body=content, headers={"Content-Type": "application/json"}
            )
            response = self._connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise


def _unreachable(error: Exception) -> EngineUnavailableError:
    return EngineUnavailableError(f"the server does not answer: {error or type(error).__name__}.")
