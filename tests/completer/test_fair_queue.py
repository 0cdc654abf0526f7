"""Fairness and superseding of the engine's queue."""

import threading
import time

import pytest

from speclsp.completer import fair_queue
from speclsp.completer.fair_queue import FairQueue


def drain(queue: FairQueue[str, str]) -> list[str]:
    taken = []
    while (job := queue.get(0)) is not None:
        taken.append(job)
    return taken


@pytest.fixture
def queue():
    return FairQueue()


def test_documents_take_turns_and_keep_their_own_order(queue):
    for job in ("a1", "a2", "a3"):
        assert queue.put("a", job, supersede=False) == []
    queue.put("b", "b1", supersede=False)
    assert drain(queue) == ["a1", "b1", "a2", "a3"]


def test_a_newer_job_supersedes_only_its_own_document(queue):
    queue.put("a", "a1", supersede=True)
    queue.put("b", "b1", supersede=True)
    assert queue.put("a", "a2", supersede=True) == ["a1"]
    assert drain(queue) == ["a2", "b1"]


def test_superseding_again_and_again_does_not_starve_the_other_document(queue):
    queue.put("b", "b1", supersede=True)
    served = []
    for i in range(5):
        queue.put("a", f"a{i}", supersede=True)
        served.append(queue.get(0))
    assert "b1" in served[:2]


def test_control_jobs_come_first_and_idle_jobs_last(queue):
    queue.put_idle("warm a", "old")
    queue.put_idle("warm b", "idle b")
    queue.put_idle("warm a", "idle a")
    queue.put("a", "a1", supersede=True)
    queue.put_control("load")
    assert queue.waiting()
    assert drain(queue) == ["load", "a1", "idle b", "idle a"]
    assert not queue.waiting()


def test_take_all_leaves_control_jobs(queue):
    for document, job in (("a", "a1"), ("a", "a2"), ("b", "b1")):
        queue.put(document, job, supersede=False)
    queue.put_control("load")
    assert queue.put_idle("warm", "old") is None
    assert queue.put_idle("warm", "idle") == "old"
    assert queue.take_all() == ["a1", "a2", "b1", "idle"]
    assert drain(queue) == ["load"]


def test_get_wakes_up_for_a_job_of_another_thread(queue):
    thread = threading.Thread(target=lambda: queue.put("a", "a1", supersede=True))
    thread.start()
    assert queue.get(10) == "a1"
    thread.join()


def test_quiet_is_when_nothing_of_any_kind_comes(queue):
    assert queue.wait_quiet(0)
    for put in (
        lambda: queue.put("a", "a1", supersede=True),
        lambda: queue.put_control("load"),
        lambda: queue.put_idle("warm", "idle"),
    ):
        thread = threading.Thread(target=put)
        thread.start()
        assert not queue.wait_quiet(10)
        thread.join()
        assert len(drain(queue)) == 1


def test_drained_is_when_the_last_job_was_done(queue):
    assert not queue.wait_drained(0)  # nobody has taken yet
    queue.put("a", "a1", supersede=True)
    assert queue.get(0) == "a1"
    assert not queue.wait_drained(0)  # a1 may still be running
    thread = threading.Thread(target=lambda: queue.get(10))
    thread.start()
    assert queue.wait_drained(10)
    queue.put_idle("warm", "idle")
    thread.join()
    assert not queue.wait_drained(0)


def test_a_documents_jobs_can_be_taken_back(queue):
    for document, job in (("a", 1), ("b", 2), ("a", 3)):
        queue.put(document, job, supersede=False)
    assert queue.take("a") == [1, 3]
    assert queue.take("a") == []
    assert queue.get(0) == 2


def test_a_request_that_follows_idle_work_at_once_comes_first(monkeypatch):
    monkeypatch.setattr(fair_queue, "IDLE_AFTER_S", 10.0)
    queue: FairQueue[str, str] = FairQueue()
    queue.put_idle("warm", "idle")
    taken: list[str | None] = []
    taker = threading.Thread(target=lambda: taken.append(queue.get(10)))
    taker.start()
    queue.put("a", "a1", supersede=True)
    taker.join(60)
    assert taken == ["a1"]


def test_jobs_of_greater_urgency_come_first_and_take_turns_among_themselves():
    queue = FairQueue[str, str]()
    for document in ("a", "b"):
        queue.put((document, "edit"), f"{document}, edit", supersede=True, urgency=1)
        queue.put((document, "typed"), f"{document}, typed", supersede=True, urgency=2)
    queue.put(("a", "typed"), "a program's", supersede=False)
    queue.put_idle("idle", "idle")
    assert queue.editors_jobs(2) == ["a, typed", "b, typed"]
    taken = [queue.get(0) for _ in range(6)]
    assert taken == ["a, typed", "b, typed", "a, edit", "b, edit", "a program's", "idle"]


def test_the_kinds_of_a_document_do_not_supersede_each_other():
    queue = FairQueue[str, str]()
    queue.put(("a", "typed"), "typed", supersede=True, urgency=2)
    assert queue.put(("a", "edit"), "edit", supersede=True, urgency=1) == []
    assert queue.put(("a", "edit"), "newer edit", supersede=True, urgency=1) == ["edit"]
    assert queue.put(("a", "typed"), "newer", supersede=True, urgency=2) == ["typed"]
    assert queue.take(("a", "edit")) == ["newer edit"]
    assert queue.get(0) == "newer"


def test_a_job_waits_for_the_next_keystroke_which_supersedes_it(queue):
    assert queue.put("a", "a0", supersede=True) == []
    assert queue.put("a", "a1", supersede=True, wait_s=3600.0) == ["a0"]
    assert queue.put("a", "a2", supersede=True, wait_s=3600.0) == ["a1"]
    assert (queue.waiting(), queue.get(0), queue.take_due()) == (False, None, [])
    assert not queue.wait_drained(0)
    assert queue.put("a", "a3", supersede=True) == ["a2"]
    assert drain(queue) == ["a3"]
    assert queue.wait_drained(0)


def test_a_job_that_has_waited_is_taken(queue):
    queue.put("a", "a1", supersede=True, wait_s=0.001)
    queue.put("b", "b1", supersede=True, urgency=1, wait_s=0.001)
    while queue._due_at() == float("inf") or not queue.waiting():
        time.sleep(0.001)
    assert queue.get(None) == "b1"
    assert queue.get(None) == "a1"


def test_jobs_that_wait_are_taken_with_their_keys_and_with_all(queue):
    queue.put("a", "a1", supersede=True, wait_s=3600.0)
    queue.put("b", "b1", supersede=True, wait_s=3600.0)
    assert queue.take("a") == ["a1"]
    assert queue.take_all() == ["b1"]
    assert drain(queue) == []


def test_due_jobs_are_told_from_those_that_wait(queue):
    queue.put("a", "a1", supersede=True, wait_s=3600.0)
    queue.put("b", "b1", supersede=True, wait_s=1e-9)
    time.sleep(0.001)
    assert queue.take_due() == ["b1"]
    assert queue.take_all() == ["a1"]
