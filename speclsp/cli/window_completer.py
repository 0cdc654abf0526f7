"""The completer of a language server: on a shared engine, or with an engine of its own."""

from __future__ import annotations

import gc
import logging
import sys

from speclsp.engine_process.client import SharedCompleter
from speclsp.engine_process.place import engine_place
from speclsp.engine_process.start import EngineConnection, connect
from speclsp.errors import EngineProcessError
from speclsp.seam.completer import Completer
from speclsp.settings import Settings

logger = logging.getLogger(__name__)


def make_completer(settings: Settings, *, gives_up: bool = True) -> Completer:
    """Return the completer that the settings ask for; see :class:`SharedCompleter`."""
    if is_shared(settings):
        return SharedCompleter(settings, _link, gives_up=gives_up)
    # Imported here: a window that shares an engine needs neither NumPy nor llama.cpp.
    from speclsp.completer.local import LocalCompleter  # noqa: PLC0415

    gc.freeze()  # modules stay loaded, and collections need not visit them
    return LocalCompleter(settings)


def is_shared(settings: Settings) -> bool:
    """Whether the engine is in another process; where that is not possible, log why."""
    # Without Unix sockets each window has an engine of its own.
    wants = settings.engine == "shared" and not settings.engine_url and sys.platform != "win32"
    return bool(settings.engine_listens) or (wants and _can_share(settings))


def _can_share(settings: Settings) -> bool:
    """Return whether there is a place for a shared engine; where there is none, log why."""
    try:
        engine_place(settings)
    except EngineProcessError as error:
        logger.warning(
            "%s This window loads the models itself, as with `engine` = own.", error.message
        )
        return False
    return True


async def _link(settings: Settings) -> EngineConnection:
    if settings.engine_listens:
        from speclsp.engine_process.listening import connect_elsewhere  # noqa: PLC0415

        return await connect_elsewhere(settings)
    return await connect(settings)
