"""The client's settings: several layers, resolved to one :class:`~speclsp.settings.Settings`.

From the lowest layer up: the command line, ``initializationOptions``, pushed settings, pulled
settings, settings pulled for one workspace folder, and ``speclsp.toggle``.

Pushed and pulled settings may come from files in the workspace, unless the client says in
``initializationOptions.machineSettings`` that it takes the machine's settings from the user alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from speclsp.settings import FIELDS, Settings, SettingValue, changed, info
from speclsp.settings_resolution import SettingProblem, canonical_name, for_language, resolve

_SECTION = "speclsp"
_INITIALIZATION = "initializationOptions"
_PUSHED = "didChangeConfiguration"
_PULLED = "workspace/configuration"
_MODEL_NAMES = ("model", "spec_draft_model")
"""Settings that together name the models."""
_MACHINE_SETTINGS = "machineSettings"
_EXPLAINS_NEXT_EDITS = "explainsNextEdits"
_OPENS_NEXT_EDITS = "opensNextEdits"
_NO_SETTINGS = frozenset(
    {_MACHINE_SETTINGS, _EXPLAINS_NEXT_EDITS, _OPENS_NEXT_EDITS, "editorInfo", "editorPluginInfo"}
)
"""What ``initializationOptions`` holds beside settings; the last two are those of Copilot's server,
whose clients send them to any server of its methods."""
_OF_USER = ("command line", _INITIALIZATION)
"""The layers that no workspace writes."""
_NOT_WRITTEN = (
    "lookup_cache_update: settings of a workspace cannot choose a statistics file to write, so "
    "those of lookup_cache_dynamic are only read. Set both on the command line or in "
    "initializationOptions."
)
FOLDER_SETTINGS = tuple(name for name in FIELDS if info(name).by_folder)
"""Settings that may differ by workspace folder, because a single request can carry them."""


class ClientSettings:
    """The layers of settings, resolved whenever one is replaced."""

    def __init__(self, base_options: Mapping[str, Any]) -> None:
        self._layers: dict[str, object] = {
            "command line": base_options,
            _INITIALIZATION: None,
            _PUSHED: None,
            _PULLED: None,
        }
        """The lowest layer first, by source, as the client sent it."""
        self._pulled_by_folder: Mapping[str, object] = {}
        self._switched: dict[str, Any] = {}
        self._by_folder: dict[str, Settings] = {}
        self._keeps_machine_settings = False
        """Whether the client lets no workspace choose the settings of the machine."""
        self.client_explains_next_edits = False
        """Whether the client itself says why there are no next edits."""
        self.client_opens_next_edits = False
        """Whether the client leads to next edits in other documents."""
        self._problems: tuple[SettingProblem, ...] = ()
        self._reported: frozenset[SettingProblem] = frozenset()
        self._models_wanted: tuple[Any, ...] = ()
        """What the client's own layers name as models."""
        self.current = self.for_completer = Settings()
        """The settings outside all folders, and with ``enabled`` if a folder or a language is."""
        self._by_language: dict[tuple[str, str], Settings] = {}
        self._resolve()

    def set_initialization(self, value: object) -> None:
        """Take ``initializationOptions``."""
        if isinstance(value, Mapping):
            self._keeps_machine_settings = value.get(_MACHINE_SETTINGS) is True
            self.client_explains_next_edits = value.get(_EXPLAINS_NEXT_EDITS) is True
            self.client_opens_next_edits = value.get(_OPENS_NEXT_EDITS) is True
            value = {name: value[name] for name in value if name not in _NO_SETTINGS}
        self._layers[_INITIALIZATION] = value
        self._resolve()

    def set_pushed(self, value: object) -> None:
        """Take the settings of didChangeConfiguration; null keeps the previous settings."""
        if value is not None:
            self._layers[_PUSHED] = value
            self._resolve()

    def set_pulled(self, value: object, by_folder: Mapping[str, object]) -> None:
        """Take the answers to workspace/configuration: the global one, and one by folder URI."""
        self._layers[_PULLED] = value
        self._pulled_by_folder = by_folder
        self._resolve()

    def switch(self, *, enabled: bool) -> None:
        """Switch completion off everywhere, or on: where the client has it on, or everywhere."""
        self._switched.pop("enabled", None)
        self._resolve()
        if not enabled or not self.for_completer.enabled:
            self._switched["enabled"] = enabled
            self._resolve()

    @property
    def is_switched_off(self) -> bool:
        """Whether ``speclsp.toggle`` has switched completion off, in all folders and languages."""
        return self._switched.get("enabled") is False

    def use_model(self, name: str) -> None:
        """Use a model by name until the client's settings name another one."""
        self._switched |= {"model": name, "spec_draft_model": ""}
        self._resolve()

    def for_folder(self, folder_uri: str | None) -> Settings:
        """Return the settings of a folder, or of documents outside all folders."""
        return self._by_folder.get(folder_uri or "", self.current)

    def for_document(self, folder_uri: str | None, language_id: str) -> Settings:
        """Return the settings of the documents of a language in a folder."""
        key = folder_uri or "", language_id
        if key not in self._by_language:
            self._by_language[key] = for_language(self.for_folder(folder_uri), language_id)
        return self._by_language[key]

    def overrides(self, folder_uri: str | None) -> dict[str, SettingValue]:
        """Return a folder's settings that differ from the completer's."""
        in_folder, everywhere = self.for_folder(folder_uri), self.for_completer
        return {
            name: getattr(in_folder, name)
            for name in FOLDER_SETTINGS
            if getattr(in_folder, name) != getattr(everywhere, name)
        }

    def new_problems(self) -> tuple[SettingProblem, ...]:
        """Return the problems that the previous call did not return."""
        new = tuple(p for p in dict.fromkeys(self._problems) if p not in self._reported)
        self._reported = frozenset(self._problems)
        return new

    def _resolve(self) -> None:
        problems: list[SettingProblem] = []
        below = [_options(source, value, problems) for source, value in self._layers.items()]
        of_client = resolve(below).settings
        wanted = tuple(getattr(of_client, name) for name in _MODEL_NAMES)
        if wanted != self._models_wanted:
            self._models_wanted = wanted
            for name in _MODEL_NAMES:
                self._switched.pop(name, None)
        resolution = resolve([*below, self._switched])
        of_user = below if self._keeps_machine_settings else below[: len(_OF_USER)]
        self.current = _written_by(resolve(of_user).settings, resolution.settings)
        update = resolution.settings.lookup_cache_update
        if update not in ("", self.current.lookup_cache_update):
            problems.append(SettingProblem("lookup_cache_update", _NOT_WRITTEN))
        problems += resolution.problems
        self._by_folder = {}
        for uri, value in self._pulled_by_folder.items():
            layer = _options(_PULLED, value, problems)
            in_folder = resolve([*below, layer, self._switched])
            self._by_folder[uri] = in_folder.settings
            problems += in_folder.problems
            differing = changed(resolution.settings, in_folder.settings)
            ignored = sorted({*differing} - {*FOLDER_SETTINGS})
            if ignored:
                message = (
                    f"{', '.join(ignored)}: cannot differ by workspace folder, so what {uri} sets "
                    "is ignored. Set it for the whole workspace."
                )
                problems.append(SettingProblem(uri, message))
        self._problems = tuple(problems)
        self._by_language = {}
        enabled = not self.is_switched_off and any(
            settings.enabled or any(o.get("enabled") is True for o in settings.languages.values())
            for settings in (self.current, *self._by_folder.values())
        )
        self.for_completer = dataclasses.replace(self.current, enabled=enabled)


def _written_by(of_user: Settings, settings: Settings) -> Settings:
    """Return settings that write no statistics file but as the user's own settings say."""
    update = settings.lookup_cache_update
    if settings.lookup_cache_dynamic != of_user.lookup_cache_dynamic:
        update = "off"
    elif update != "off":
        update = of_user.lookup_cache_update
    return dataclasses.replace(settings, lookup_cache_update=update)


def _options(source: str, value: object, problems: list[SettingProblem]) -> Mapping[str, Any]:
    """Return the settings that a client sent; what is no object of settings is a problem."""
    where = source
    if isinstance(value, Mapping) and _SECTION in value:
        where, value = f"{source}: {_SECTION}", value[_SECTION]
        if isinstance(value, Mapping):
            return value
    if isinstance(value, Mapping):
        return flat_options(value)
    if value is not None and value != []:  # Lua's empty table is an empty array in JSON
        message = f"{where}: expected an object of settings, got {value!r:.80}."
        problems.append(SettingProblem(source, message))
    return {}


def flat_options(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in a client's object that has no section ``speclsp``.

    The keys are the settings' names, with or without the prefix ``speclsp.``.
    An object of which every value is an object and no key a setting belongs to other programs.
    """
    prefix = f"{_SECTION}."
    dotted = {k.removeprefix(prefix): v for k, v in value.items() if k.startswith(prefix)}
    if dotted:
        return dotted
    ours = any(canonical_name(k) or not isinstance(v, Mapping) for k, v in value.items())
    return dict(value) if ours else {}
