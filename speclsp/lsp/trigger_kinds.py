"""What a client means by its trigger kinds: LSP 3.18 counts them from 1, older clients from 0."""

from __future__ import annotations

from typing import Final

from speclsp.request import Trigger

OLD_INVOKED: Final = 0
_INVOKED, _AUTOMATIC = 1, 2
_N_ONLY_ONES: Final = 3
"""As many requests of kind 1 and none of another: nobody asks by hand before ever typing."""


class TriggerKinds:
    """Follows one client's kinds.

    1 is Invoked in LSP 3.18 and Automatic in clients written before it was final (such as
    vscode-languageclient up to version 9).  A client that has sent 0 is old, one that has sent 2 is
    not.
    """

    def __init__(self) -> None:
        self._is_old: bool | None = None
        self._n_ones = 0

    def trigger(self, kind: int) -> Trigger:
        """Return who asked by a request of this kind."""
        if kind == OLD_INVOKED:
            self._is_old = True
            return "invoked"
        if kind == _AUTOMATIC:
            self._is_old = False
            return "automatic"
        self._n_ones += 1
        is_old = self._n_ones > _N_ONLY_ONES if self._is_old is None else self._is_old
        return "automatic" if is_old else "invoked"
