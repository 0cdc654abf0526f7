import pytest

from speclsp.lsp.completion_requests import TriggerKinds


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ([2, 1, 2, 1], "aiai"),
        ([1, 2, 1], "iai"),
        ([0, 1, 1, 0], "iaai"),
        # Only ones: somebody who asks by hand, or an old client that has seen no key for it yet.
        ([1, 1, 1, 1, 1], "iiiaa"),
        ([1, 1, 1, 1, 2, 1], "iiiaai"),
    ],
)
def test_kinds_mean_what_the_client_means(kinds, expected):
    client = TriggerKinds()
    assert "".join(client.trigger(kind)[0] for kind in kinds) == expected


async def test_an_old_client_types_and_asks(wire):
    wire.open("x")
    for kind in (0, 1):
        await wire.ghost(0, 1, triggerKind=kind)
    requests = [asked.request.plain for asked in wire.completer.asked]
    triggers = [(request.trigger, request.n_candidates) for request in requests]
    assert triggers == [("invoked", 3), ("automatic", 1)]
