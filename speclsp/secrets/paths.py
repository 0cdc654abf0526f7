"""Files that hold secrets by their names; they are never read, whatever .gitignore says.

Where a name is ambiguous its ending decides: ``credentials.json`` is left out,
``credentials_provider.py`` and ``id_utils.py`` are source code.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SECRET_FOLDERS: Final = frozenset(
    {".aws", ".azure", ".gcloud", ".gnupg", ".kube", ".oci", ".password-store", ".ssh"}
)
"""Folders in which nothing is read."""

_DOUBTFUL_FOLDERS: Final = frozenset(
    {"secrets", ".secrets", "credentials", ".credentials", "private_keys"}
)
"""Folders in which only source code is read, since packages have these names too."""

_SECRET_SUFFIXES: Final = _words(
    """
    .agekey .asc .gpg .jceks .jks .kdb .kdbx .key .keystore .keytab .mobileprovision .ovpn .p12
    .p8 .pem .pfx .pgp .pkcs12 .pkcs8 .ppk .psafe3 .tfstate .tfvars .truststore
    """
)

_SECRET_NAMES: Final = _words(
    """
    .boto .databrickscfg .dockercfg .dockerconfigjson .envrc .flaskenv .git-credentials
    .gitcredentials .htpasswd .my.cnf .mylogin.cnf .netrc .npmrc .pgpass .pypirc .rclone.conf
    .s3cfg .terraformrc .vault-token .yarnrc.yml _netrc auth.json htpasswd kubeconfig
    local.settings.json master.key pgpass.conf rclone.conf serviceaccountkey.json terraform.rc
    wp-config.php
    """
)

_SOURCE_SUFFIXES: Final = _words(
    """
    .adoc .astro .c .cc .cjs .clj .cljs .cpp .cs .css .cxx .d .dart .elm .erl .ex .exs .f90 .fs
    .go .groovy .h .hh .hpp .hs .html .hxx .java .jl .js .jsx .kt .kts .less .lua .m .md .mjs .ml
    .mli .mm .mts .nim .php .pl .pm .proto .py .pyi .pyx .r .rb .rs .rst .sass .scala .scss .sol
    .sql .svelte .swift .tcl .ts .tsx .v .vala .vb .vhd .vue .zig
    """
)

_ENVIRONMENT: Final = re.compile(r"\.env([.\-_].*)?|.*\.env", re.DOTALL)
_HISTORY: Final = re.compile(r"\..*_history")
_SSH_KEY: Final = re.compile(r"id_[^.]*|id_(rsa|dsa|ecdsa|ed25519)([._\-].*)?", re.DOTALL)
_EXACT_STEM: Final = re.compile(r"\.?(credentials?|secrets?)")
_DOUBTFUL: Final = re.compile(
    r"kubeconfig|credentials?(?![a-z])|secrets?(?![a-z])|passw(or)?ds?(?![a-z])|private[_\-.]?key"
    r"|service[_\-.]?account|api[_\-.]?keys?(?![a-z])"
)
_BACKUP: Final = re.compile(r"(.+?)(\.(bak|backup|old|orig|save|swp|\d+)|~)+", re.DOTALL)


def is_secret_path(path: str | PurePath, file: str = "") -> bool:
    """Whether a file holds secrets by its name.

    ``path`` is relative to its workspace folder: of the folder's own path, in the absolute path
    ``file``, only folders count in which nothing is read.  Links are not resolved: that may block.
    """
    *folders, name = re.split(r"[/\\]", str(path).lower())
    if not _SECRET_FOLDERS.isdisjoint((*folders, *re.split(r"[/\\]", file.lower()))):
        return True
    backup = _BACKUP.fullmatch(name)
    return _is_secret_name(name, folders) or (
        backup is not None and _is_secret_name(backup[1], folders)
    )


def _is_secret_name(name: str, folders: list[str]) -> bool:
    stem, dot, suffix = name.rpartition(".")
    stem, suffix = (stem, dot + suffix) if stem else (name, "")
    if name in _SECRET_NAMES or suffix in _SECRET_SUFFIXES:
        return True
    if _EXACT_STEM.fullmatch(stem) or _EXACT_STEM.fullmatch(name.partition(".")[0]):
        # secrets.py and credentials.h hold literals more often than logic.
        return True
    if _ENVIRONMENT.fullmatch(name) or _HISTORY.fullmatch(name):
        return True
    if suffix in _SOURCE_SUFFIXES:
        return False
    return (
        not _SECRET_SUFFIXES.isdisjoint(f".{part}" for part in name.split(".")[1:])
        or _SSH_KEY.fullmatch(name) is not None
        or _DOUBTFUL.search(name) is not None
        or not _DOUBTFUL_FOLDERS.isdisjoint(folders)
    )
