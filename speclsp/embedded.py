"""The paths of the files that settings name, of the embedded ones, and of the sample project.

A wheel has them in this package, a checkout or an editable install in ``fixtures/`` at the root of
the repository.
"""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from speclsp.errors import ModelNotFoundError
from speclsp.settings import Settings, named_path

EMBEDDED: Final = "embedded"
"""The value of ``model``, ``spec_draft_model`` or ``edit_model`` that selects the embedded one."""

TARGET_FILE_NAME = "embedded-target-f16.gguf"
DRAFT_FILE_NAME = "embedded-draft-q8_0.gguf"
EDIT_FILE_NAME = "embedded-edit-q8_0.gguf"

TITLE = "trial model"
"""The embedded target as users know it."""

MAX_PROMPT = 1536
"""Maximum prompt tokens of the embedded target: it saves more characters than with 2,048."""

_PACKAGE = Path(__file__).resolve().parent
_ROOTS = (_PACKAGE / "_fixtures", _PACKAGE.parent / "fixtures")


class ModelFiles(NamedTuple):
    """The GGUFs that the settings name."""

    target: Path
    draft: Path | None
    edit: Path | None


def model_files(settings: Settings) -> ModelFiles:
    """Return the model files that the settings name; the embedded target is the default.

    Raises :class:`~speclsp.errors.ModelNotFoundError` where the installation lacks an embedded one.
    """
    target = embedded_target() if is_trial(settings) else named_path(settings.model)
    edit = _edit_model(settings) if settings.edit_model else None
    if settings.spec_draft_model == EMBEDDED:
        return ModelFiles(target, embedded_draft(), edit)
    draft = named_path(settings.spec_draft_model) if settings.spec_draft_model else None
    return ModelFiles(target, draft, edit)


def is_trial(settings: Settings) -> bool:
    """Whether the settings name the embedded target, or no model."""
    return settings.model in ("", EMBEDDED)


def edit_model_settings(settings: Settings) -> Settings:
    """Return the settings by which the model of ``edit_model`` is loaded, as a target of its own.

    It is here where the target is remote, too.
    Raises :class:`~speclsp.errors.ModelNotFoundError` where the installation lacks an embedded one.
    """
    return replace(
        settings,
        model=str(_edit_model(settings)),
        edit_model="",
        spec_draft_model="",
        engine_url="",
        fim_template="",
    )


def _edit_model(settings: Settings) -> Path:
    is_embedded = settings.edit_model == EMBEDDED
    return embedded_edit_model() if is_embedded else named_path(settings.edit_model)


def with_absolute_paths(settings: Settings) -> Settings:
    """Return settings with absolute paths, since an engine process runs in another folder."""
    return replace(
        settings,
        model=_absolute(settings.model),
        spec_draft_model=_absolute(settings.spec_draft_model),
        edit_model=_absolute(settings.edit_model),
        lookup_cache_static=[_absolute(path) for path in settings.lookup_cache_static],
        lookup_cache_dynamic=[_absolute(path) for path in settings.lookup_cache_dynamic],
    )


def _absolute(path: str) -> str:
    if path not in ("", EMBEDDED):
        with suppress(OSError):  # of a working folder that was removed
            return str(named_path(path).absolute())
    return path


def embedded_target() -> Path:
    """Return the path of the embedded target model.

    Raises :class:`~speclsp.errors.ModelNotFoundError` where the installation lacks it.
    """
    return _fixture(f"models/{TARGET_FILE_NAME}", f"embedded model {TARGET_FILE_NAME}")


def embedded_draft() -> Path:
    """Return the path of the embedded draft model, which belongs to the embedded target.

    Raises :class:`~speclsp.errors.ModelNotFoundError` where the installation lacks it.
    """
    return _fixture(f"models/{DRAFT_FILE_NAME}", f"embedded model {DRAFT_FILE_NAME}")


def embedded_edit_model() -> Path:
    """Return the path of the embedded model for next edits.

    Raises :class:`~speclsp.errors.ModelNotFoundError` where the installation lacks it.
    """
    return _fixture(f"models/{EDIT_FILE_NAME}", f"embedded model {EDIT_FILE_NAME}")


def sample_project() -> Path:
    """Return the folder of the demo's sample project.  Copy it before you change it.

    Raises :class:`~speclsp.errors.ModelNotFoundError` where the installation lacks it.
    """
    return _fixture("sample_project", "sample project")


def _fixture(name: str, title: str) -> Path:
    for root in _ROOTS:
        if (root / name).exists():
            return root / name
    raise ModelNotFoundError(
        f"The {title} is missing from this installation.",
        remedy="Install speclsp again, or name a model with --model PATH.gguf.",
    )
