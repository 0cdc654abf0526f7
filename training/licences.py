"""Which licences the corpus takes, and how a distribution's metadata names its licence."""

from __future__ import annotations

from email.message import Message

_PERMISSIVE = (
    ("apache", "Apache-2.0"),
    ("isc", "ISC"),
    ("mit", "MIT"),
    ("bsd", "BSD"),
    ("psf", "PSF-2.0"),
    ("python software foundation", "PSF-2.0"),
    ("python-2.0", "PSF-2.0"),
    ("unlicense", "Unlicense"),
    ("public domain", "public domain"),
    ("zlib", "Zlib"),
    ("hpnd", "HPND"),
)
_OTHERS = ("gpl", "mozilla", "mpl", "eupl", "cddl", "epl", "proprietary", "nvidia", "commercial")


def permissive_licence(metadata: Message) -> str | None:
    """Return a distribution's licence, or None where it is not a permissive one or not named.

    ``metadata`` has the core metadata's fields.  A distribution under several licences is taken
    only where none of them restricts more than attribution.
    """
    expression = metadata.get("License-Expression", "")
    classifiers = " ".join(
        value for value in metadata.get_all("Classifier", []) if value.startswith("License")
    )
    lines = (metadata.get("License") or "").strip().splitlines()
    for text in (expression, classifiers, lines[0] if lines else ""):
        licence = permissive_text(text)
        if licence is not None:
            return licence
        if any(name in text.lower() for name in _OTHERS):
            return None
    return None


def permissive_text(text: str) -> str | None:
    """Return the licence that a short text names, or None where it is not a permissive one."""
    lower = text.lower()
    if any(name in lower for name in _OTHERS):
        return None
    found = [licence for name, licence in _PERMISSIVE if _has_word(lower, name)]
    return " / ".join(dict.fromkeys(found)) or None


def _has_word(text: str, word: str) -> bool:
    start = text.find(word)
    while start >= 0:
        before, after = text[start - 1 : start], text[start + len(word) : start + len(word) + 1]
        if not before.isalpha() and not after.isalpha():
            return True
        start = text.find(word, start + 1)
    return False
