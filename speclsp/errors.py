"""The exceptions of speclsp.

::

    SpecLspError
    ├── SettingsError             a setting has a wrong name or value
    ├── ModelError                a model cannot be used
    │   ├── DownloadError         it cannot be downloaded
    │   │   └── DownloadCancelledError    the user cancelled it
    │   ├── ModelNotFoundError    no file there
    │   ├── ModelLoadError        llama.cpp refuses the file, or it does not fit
    │   └── NotFimModelError      the vocabulary lacks fill-in-the-middle tokens
    ├── EngineError               the engine cannot answer
    │   ├── EngineLibraryError        llama-cpp-python cannot be imported
    │   ├── EngineUnavailableError    loading, switched off, or failed to load
    │   │   ├── EngineProcessError        the shared engine cannot be found, started or reached
    │   │   └── RemoteError               the remote engine cannot be reached, or refuses a request
    │   │       ├── KeyRefusedError           the server refuses the key
    │   │       └── OtherModelError           it runs another model than before
    │   └── DecodeError           llama_decode failed
    │       └── DecodeInterruptedError    it was interrupted, and nothing is lost
    ├── TemplateError             a ``fim_template`` cannot be read
    ├── EditRefusedError          no next edit may be asked for here
    ├── RequestError              a program's request cannot be answered as it is
    ├── DrafterError              a drafter is unknown or broken
    └── StoreError                a file or database of ours is damaged or cannot be written

Foreign exceptions are mapped to these at the border where they arise.
Each has a message and a remedy; editors show both.
"""

from __future__ import annotations

from speclsp.printable import printable


class SpecLspError(Exception):
    """Base of all errors of speclsp.

    ``remedy`` is one sentence that tells the user what to do, or empty.
    Both may quote files' names and other programs' words: what is not printable is replaced.
    """

    was_told = False
    """Whether the user has seen it in the log."""

    def __init__(self, message: str, *, remedy: str = "") -> None:
        self.message = printable(message)
        self.remedy = printable(remedy)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}" if self.remedy else self.message


class SettingsError(SpecLspError):
    """A setting has a wrong name or value."""


class ModelError(SpecLspError):
    """A model cannot be used."""


class DownloadError(ModelError):
    """A model cannot be downloaded."""


class DownloadCancelledError(DownloadError):
    """The user cancelled a download; what has arrived is kept."""


class ModelNotFoundError(ModelError):
    """There is no model file at the configured path."""


class ModelLoadError(ModelError):
    """llama.cpp refuses the model file, or it does not fit the device."""


class NotFimModelError(ModelError):
    """The model's vocabulary lacks fill-in-the-middle tokens."""


class EngineError(SpecLspError):
    """The engine cannot answer."""


class EngineLibraryError(EngineError):
    """llama-cpp-python cannot be imported."""

    @classmethod
    def of(cls, error: Exception) -> EngineLibraryError:
        """Return the error for what the import raised.

        That is ImportError, or RuntimeError or OSError where its shared library cannot be loaded.
        """
        return cls(
            f"llama-cpp-python cannot be imported: {str(error).rstrip('.')}.",
            remedy="Install it: `python -m speclsp.install_llama_cpp` chooses the build for this "
            "machine, `pip install llama-cpp-python` compiles it. `speclsp doctor` checks the "
            "whole installation.",
        )


class EngineUnavailableError(EngineError):
    """The engine is loading, switched off, or failed to load."""


class EngineProcessError(EngineUnavailableError):
    """The shared engine's process cannot be found, started or reached."""


class RemoteError(EngineUnavailableError):
    """The remote engine cannot be reached, or refuses a request."""

    retry_after_s: float | None = None
    """Seconds after which the same request may succeed; None where it cannot."""
    is_down: bool = True
    """Whether other requests would fail, too."""


class KeyRefusedError(RemoteError):
    """The server refuses the key, or wants one; gateways also refuse unknown paths so."""


class OtherModelError(RemoteError):
    """The remote engine no longer runs the model that prompts are laid out for."""


class DecodeError(EngineError):
    """llama_decode failed; the KV cache was cleared."""


class DecodeInterruptedError(DecodeError):
    """llama_decode was interrupted; the KV cache holds what it held before the call.

    Where the model's memory cannot be rolled back, the cache is empty.
    """


class NoRoomError(DecodeError):
    """The KV cache has no room for a batch; it holds what it held before the call.

    Where the model's memory cannot be rolled back, the cache is empty.
    """


class TemplateError(SpecLspError):
    """A ``fim_template`` cannot be read."""


class RequestError(SpecLspError):
    """A program's request cannot be answered as it is; the engine is well."""


class EditRefusedError(SpecLspError):
    """No next edit may be asked for here."""


class DrafterError(SpecLspError):
    """A drafter is unknown, cannot be imported, or raised."""


class StoreError(SpecLspError):
    """A file or database of ours is damaged or cannot be written."""
