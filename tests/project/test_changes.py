from speclsp.project.changes import ChangeBatch


def test_ready_after_a_quiet_moment() -> None:
    batch = ChangeBatch()
    assert batch.ready_s is None
    batch.add("a", 10.0)
    first_s = batch.ready_s
    assert first_s is not None
    assert 10.0 < first_s < 11.0
    batch.add("b", 10.1)
    assert batch.ready_s == first_s + 0.1 or abs(batch.ready_s - first_s - 0.1) < 1e-9


def test_never_waits_for_long() -> None:
    batch = ChangeBatch()
    for step in range(1000):
        batch.add("a", step / 100)
    assert batch.ready_s == 1.0


def test_taken_once_each_in_order() -> None:
    batch = ChangeBatch()
    for path in ("b", "a", "b"):
        batch.add(path, 1.0)
    assert batch.take() == ["b", "a"]
    assert batch.take() == []
    assert batch.ready_s is None
