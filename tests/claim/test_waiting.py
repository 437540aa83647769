"""An idle worker is woken when there is work, a busy system notifies nobody, and nothing waits unseen."""

from __future__ import annotations

import pytest

from tests.claim.support import call, claim, complete, create, names
from tests.conftest import Clock, Connect
from tests.support.cluster import Connection

#: Far above what a notification takes; reached only when a test fails.
ARRIVAL_S = 10.0
#: A notification that was sent is there as soon as the statement after it has been answered.
SILENCE_S = 0.05


class Worker:
    """A worker's connection that listens for work."""

    def __init__(self, connection: Connection, waiter_id: str) -> None:
        self.connection = connection
        self.waiter_id = waiter_id
        connection.execute("listen ff_eligible")

    def wait(self, *lanes: str, wait_ms: int = 60_000) -> None:
        """Register as waiting."""
        call(
            self.connection,
            "ff_wait_for_work",
            lanes=list(lanes) or ["default"],
            waiter_id=self.waiter_id,
            wait_ms=wait_ms,
        )

    def heard(self, timeout_s: float = SILENCE_S) -> list[str]:
        """The lanes it was notified of."""
        self.connection.execute("select 1")
        return [n.payload for n in self.connection.notifies(timeout=timeout_s, stop_after=1)] + [
            n.payload for n in self.connection.notifies(timeout=SILENCE_S)
        ]


@pytest.fixture
def worker(connect: Connect) -> Worker:
    return Worker(connect(), "w-1")


def test_an_idle_worker_is_woken_by_new_work_and_claims_it(db: Connection, worker: Worker) -> None:
    assert claim(worker.connection) == []
    worker.wait()
    assert claim(worker.connection) == []
    create(db, "work")
    assert worker.heard(ARRIVAL_S) == ["default"]
    assert names(claim(worker.connection)) == ["work"]


def test_a_busy_system_notifies_nobody(db: Connection, worker: Worker) -> None:
    for number in range(20):
        create(db, f"{number}")
        for row in claim(db, max=5):
            complete(db, row)
    create(db, *"abc")
    for row in claim(db, max=2):
        call(
            db,
            "ff_fail_execution",
            execution_id=row["execution_id"],
            lease_id=row["lease_id"],
            lease_epoch=row["lease_epoch"],
            attempt_id=row["attempt_id"],
            failure_reason="oops",
            retry_policy='{"max_retries": 1}',
        )
    assert worker.heard() == []


def test_a_waiter_hears_of_its_own_lanes_only(db: Connection, worker: Worker) -> None:
    worker.wait("mine", "my other")
    create(db, "a", lane_id="yours")
    assert worker.heard() == []
    create(db, "a", lane_id="my other")
    assert worker.heard(ARRIVAL_S) == ["my other"]


def test_two_waiters_of_a_lane_both_wake(connect: Connect, db: Connection, worker: Worker) -> None:
    other = Worker(connect(), "w-2")
    worker.wait()
    other.wait()
    create(db, "a")
    assert worker.heard(ARRIVAL_S) == other.heard(ARRIVAL_S) == ["default"]


def test_many_creations_in_one_transaction_are_one_notification(connect: Connect, worker: Worker) -> None:
    worker.wait()
    producer = connect(autocommit=False)
    create(producer, *(str(n) for n in range(100)))
    assert worker.heard() == []
    producer.commit()
    assert worker.heard(ARRIVAL_S) == ["default"]


def test_a_rolled_back_creation_wakes_nobody(connect: Connect, worker: Worker) -> None:
    worker.wait()
    producer = connect(autocommit=False)
    create(producer, "a")
    producer.rollback()
    assert worker.heard() == []


def test_a_registration_lapses_by_itself(db: Connection, worker: Worker, clock: Clock) -> None:
    clock.freeze(100_000)
    worker.wait(wait_ms=2_000)
    clock.freeze(102_000)
    create(db, "a")
    assert worker.heard() == []


def test_a_registration_can_be_withdrawn(db: Connection, worker: Worker) -> None:
    worker.wait()
    worker.wait(wait_ms=0)
    create(db, "a")
    assert worker.heard() == []


@pytest.mark.parametrize("mode", [0, 2])
def test_a_setting_silences_the_notifications(db: Connection, worker: Worker, mode: int) -> None:
    call(db, "ff_set_setting", name="notify_eligible", value=mode)
    worker.wait()
    create(db, "a")
    assert worker.heard() == []


def test_lost_registrations_are_restored_by_the_next_poll(db: Connection, worker: Worker) -> None:
    worker.wait()
    db.execute("truncate flowfabric.ff_waiter")  # what a crash of the server does to an unlogged table
    create(db, "a")
    assert worker.heard() == []
    assert names(claim(worker.connection)) == ["a"]
    worker.wait()
    create(db, "b")
    assert worker.heard(ARRIVAL_S) == ["default"]


def test_a_lane_that_opens_wakes_its_waiters(db: Connection, worker: Worker) -> None:
    call(db, "ff_set_lane_state", lane_id="default", lane_state="paused")
    create(db, "a")
    worker.wait()
    call(db, "ff_set_lane_state", lane_id="default", lane_state="disabled")
    assert worker.heard() == []
    call(db, "ff_set_lane_state", lane_id="default", lane_state="active")
    assert worker.heard(ARRIVAL_S) == ["default"]


def test_what_a_claim_promotes_and_does_not_take_wakes_another_worker(
    connect: Connect, db: Connection, worker: Worker, clock: Clock
) -> None:
    clock.freeze(100_000)
    create(db, "a", delay_until_ms=101_000)
    worker.wait()
    clock.freeze(101_000)
    assert names(claim(db)) == ["a"]
    assert worker.heard() == []

    create(db, "b", "c", delay_until_ms=102_000)
    clock.freeze(102_000)
    assert names(claim(db)) == ["b"]
    assert worker.heard(ARRIVAL_S) == ["default"]


# The race of spec 40 section 3.6: T makes work eligible while a worker is about to wait.


def test_a_wake_after_the_registration_notifies(connect: Connect, worker: Worker) -> None:
    producer = connect(autocommit=False)
    assert claim(worker.connection) == []
    worker.wait()
    create(producer, "a")
    assert claim(worker.connection) == []
    producer.commit()
    assert worker.heard(ARRIVAL_S) == ["default"]


def test_work_that_commits_between_registration_and_second_look_is_found_by_that_look(
    connect: Connect, worker: Worker
) -> None:
    producer = connect(autocommit=False)
    assert claim(worker.connection) == []
    create(producer, "a")
    worker.wait()
    producer.commit()
    assert names(claim(worker.connection)) == ["a"]
    assert worker.heard() == []


def test_work_that_passed_its_wake_before_and_commits_after_both_is_left_to_the_third_look(
    connect: Connect, worker: Worker
) -> None:
    producer = connect(autocommit=False)
    assert claim(worker.connection) == []
    create(producer, "a")
    worker.wait()
    assert claim(worker.connection) == []
    producer.commit()
    assert worker.heard() == []
    assert names(claim(worker.connection)) == ["a"]
