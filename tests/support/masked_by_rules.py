"""What a masked text owes to the rules, and what to the secrets that it had before."""

from speclsp.secrets.masked_text import MaskedText, _with_placeholders, masked
from speclsp.secrets.spans import Span, merged


def by_rules(text: MaskedText) -> str:
    """Return the text with placeholders for what the rules find in it, and for nothing else."""
    parts = (part for found in text._found for part in found.parts)
    return _with_placeholders(text.raw, merged([*parts, *text._blocks, *text._bare]))


def update_checked(text: MaskedText, raw: str, path: str) -> None:
    """Update a text and check it against masking its new version whole.

    The rules find the same, and beyond that only letters are masked that were masked before.
    """
    masking_before = [text.raw[start:end] for start, end in text._spans] + [*text._removed]
    text_before = text.text
    masking = text.update(raw)
    assert masking is not None
    assert masking.edit.applied_to(text_before) == text.text
    whole = masked(raw, path)
    if text.is_secret:
        return
    assert by_rules(text) == whole
    assert text.text == _with_placeholders(raw, text._spans)
    parts = (part for found in text._found for part in found.parts)
    ruled = merged([*parts, *text._blocks, *text._bare])
    for start, end in _without(text._spans, ruled):
        for left in _without([Span(start, end)], _occurrences(raw, masking_before)):
            assert _are_parts(raw[left.start : left.end], masking_before)


def _are_parts(text: str, secrets: list[str]) -> bool:
    """Whether a text is what a deletion left: part of a secret, and maybe of another one."""

    def is_part(part: str) -> bool:
        return any(part in secret for secret in secrets)

    return any(is_part(text[:n]) and is_part(text[n:]) for n in range(len(text) + 1))


def _occurrences(text: str, secrets: list[str]) -> list[Span]:
    """Return where a text holds secrets as a whole."""
    found: list[Span] = []
    for secret in filter(None, secrets):
        start = text.find(secret)
        while start >= 0:
            found.append(Span(start, start + len(secret)))
            start = text.find(secret, start + 1)
    return merged(found)


def _without(spans: list[Span], others: list[Span]) -> list[Span]:
    """Return what the spans have beyond others."""
    left: list[Span] = []
    for span in spans:
        start = span.start
        for other in others:
            if other.start < span.end and start < other.end:
                if start < other.start:
                    left.append(Span(start, other.start))
                start = min(span.end, other.end)
        if start < span.end:
            left.append(Span(start, span.end))
    return left
