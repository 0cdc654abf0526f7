"""Stops a running llama_decode from outside.

llama.cpp asks its abort callback before each operation of a graph, hundreds of times per decode.
A callback into Python would take the interpreter's lock each time, so the callback is a C function
that reads one byte: ``strlen`` of a text that is empty until someone writes its first character.
Only the CPU backend asks; on a GPU a decode runs to its end.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from llama_cpp import llama_cpp as llama

from speclsp.engine.llama.library import c_library

_POLL_INTERVAL_S = 0.005


class DecodeInterrupt:
    """The byte, and a thread that sets it as soon as a predicate is true.

    The thread starts with the first predicate and sleeps while there is none.
    """

    def __init__(self) -> None:
        self._text = ctypes.create_string_buffer(2)
        self._condition = threading.Condition()
        self._predicate: Callable[[], bool] | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def install(self, context: int) -> None:
        """Make a ``llama_context`` ask the byte."""
        callback = ctypes.cast(c_library().strlen, llama.ggml_abort_callback)
        llama.llama_set_abort_callback(context, callback, ctypes.cast(self._text, ctypes.c_void_p))

    @property
    def is_set(self) -> bool:
        """Whether a running decode is being stopped."""
        return self._text.raw[0] != 0

    def watch(self, predicate: Callable[[], bool] | None) -> None:
        """Stop decodes as soon as ``predicate`` is true; None watches nothing.

        Either way decodes run again from now on.  ``predicate`` is asked on another thread, every
        five milliseconds.
        """
        with self._condition:
            self._predicate = predicate
            self._text[0] = b"\0"
            if predicate is not None and self._thread is None and not self._closed:
                self._thread = threading.Thread(
                    target=self._run, name="speclsp-interrupt", daemon=True
                )
                self._thread.start()
            self._condition.notify_all()

    def close(self) -> None:
        """End the thread."""
        with self._condition:
            self._closed = True
            self._predicate = None
            self._condition.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        with self._condition:
            while not self._closed:
                if self._predicate is None:
                    self._condition.wait()
                elif self._predicate():
                    self._text[0] = b"\1"
                    self._predicate = None
                else:
                    self._condition.wait(_POLL_INTERVAL_S)
