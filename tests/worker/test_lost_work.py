"""Work that other workers have lost: how fast it is taken over, and what stops work that kills workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest

from flowfabric_client import Client
from flowfabric_client.worker import Context, SyncContext, Worker, events
from tests.conftest import Clock
from tests.support.cluster import REPOSITORY, Connection
from tests.support.concurrency import wait_until
from tests.worker.support import create, describe, running

LOST = 60


@pytest.fixture
def lost_ids(client: Client, clock: Clock) -> list[str]:
    """Executions whose worker is gone."""
    ids = [create(client, "test") for _ in range(LOST)]
    claimed = client.claim_next(["default"], "dead", "dead-1", max=LOST, lease_ttl_ms=1000)
    assert len(claimed) == LOST
    clock.advance(1000)
    return ids


def test_lost_work_is_taken_over_as_fast_as_slots_are_free(
    database: str, client: Client, lost_ids: list[str]
) -> None:
    # Were it taken over once per poll, the last of it would be after nine minutes.
    worker = Worker(database, concurrency=7, poll_interval_ms=60_000, run_ticks=False)

    @worker.handler("test")
    def test(_: SyncContext) -> None:
        pass

    with running(worker) as run:
        run.wait_for(events.Completed, LOST)
        assert {claimed.how for claimed in run.all(events.Claimed)} == {"reclaimed"}
    assert {describe(client, execution_id).public_state for execution_id in lost_ids} == {"completed"}


def test_many_slots_are_filled_by_several_reclaims(
    database: str, client: Client, clock: Clock, lost_ids: list[str]
) -> None:
    more = 300
    client.create_executions(["test"] * more)
    for _ in range(more // 100):
        assert len(client.claim_next(["default"], "dead", "dead-1", max=100, lease_ttl_ms=1000)) == 100
    clock.advance(1000)
    worker = Worker(database, concurrency=500, poll_interval_ms=60_000, run_ticks=False)

    @worker.handler("test")
    async def test(_: Context) -> None:
        pass

    with running(worker) as run:
        run.wait_for(events.Completed, LOST + more)


def test_lost_work_does_not_keep_fresh_work_waiting(
    database: str, client: Client, lost_ids: list[str]
) -> None:
    fresh_ids = {create(client, "test") for _ in range(3)}
    worker = Worker(database, concurrency=1, poll_interval_ms=60_000, run_ticks=False)

    @worker.handler("test")
    def test(_: SyncContext) -> None:
        pass

    with running(worker) as run:
        run.wait_for(events.Completed, LOST + len(fresh_ids))
        order = [claimed.execution_id in fresh_ids for claimed in run.all(events.Claimed)]
    # Lost work is first, and every fourth is fresh as long as there is some.
    assert not any(order[:3])
    assert all(any(order[start : start + 5]) for start in (0, 5))


def test_what_failed_because_it_was_lost_too_often_is_told(
    database: str, client: Client, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    execution_id = create(client, "test", policy={"max_reclaim_count": 0})
    client.claim_next(["default"], "dead", "dead-1", lease_ttl_ms=1000)
    clock.advance(1000)
    with running(Worker(database, poll_interval_ms=200, run_ticks=False)) as run:
        (told,) = run.wait_for(events.ReclaimsUsedUp)
    assert told.execution_id == execution_id
    assert f"{execution_id} (test) has failed" in caplog.text


class Fleet:
    """Worker processes, each replaced by a new one when it has died."""

    SIZE = 3

    def __init__(self, dsn: str) -> None:
        self._environment = {**os.environ, "FLOWFABRIC_DSN": dsn}
        self._processes = [self._start() for _ in range(self.SIZE)]
        self.deaths = 0

    def replace_dead(self) -> None:
        """Start a process for each that was killed."""
        for number, process in enumerate(self._processes):
            if process.poll() is not None:
                assert process.returncode == -signal.SIGKILL
                self.deaths += 1
                self._processes[number] = self._start()

    def stop(self) -> None:
        """End all of them."""
        for process in self._processes:
            process.kill()
            process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "flowfabric_client", "worker", "tests.worker.crash_app:worker"],
            cwd=REPOSITORY,
            env=self._environment,
            stderr=subprocess.DEVNULL,
        )


@contextmanager
def fleet_of(dsn: str) -> Iterator[Fleet]:
    fleet = Fleet(dsn)
    try:
        yield fleet
    finally:
        fleet.stop()


def test_a_handler_that_kills_its_process_is_stopped(
    database: str, db: Connection, client: Client, clock: Clock
) -> None:
    cap = 5
    poison = create(client, "poison")
    others = [create(client, "harmless") for _ in range(5)]

    def has_ended(execution_id: str) -> bool:
        return describe(client, execution_id).terminal_at_ms is not None

    with fleet_of(database) as fleet:

        def poison_has_failed() -> bool:
            deaths = fleet.deaths
            fleet.replace_dead()
            if fleet.deaths > deaths:
                others.extend(create(client, "harmless") for _ in range(5))
            found = describe(client, poison)
            if found.ownership_state == "lease_expired_reclaimable":
                # The back-off; leases of the living are not meant to expire by it.
                wait_ms = (found.delay_until_ms or 0) - clock.now_ms()
                if wait_ms > 0 and all(has_ended(other) for other in others):
                    clock.advance(wait_ms)
            return found.public_state == "failed"

        wait_until(poison_has_failed, "the poison was stopped", deadline_s=120)
        wait_until(lambda: all(map(has_ended, others)), "the other work ended", deadline_s=60)
        fleet.replace_dead()
        assert fleet.deaths == cap + 1
    found = describe(client, poison)
    assert found.failure_reason is not None
    assert found.failure_reason.startswith("max_reclaims_exceeded: 6 leases lost in a row")
    assert found.total_attempt_count == cap + 1
    assert {describe(client, other).public_state for other in others} == {"completed"}
    attempts = [attempt.started_at_ms for attempt in client.list_attempts(poison)]
    waits = [later - earlier for earlier, later in pairwise(attempts)]
    # The lease, and from the second takeover on 1, 2, 4 and 8 s at least.
    for wait_ms, least_ms in zip(waits, (1_000, 2_000, 3_000, 5_000, 9_000), strict=True):
        assert wait_ms >= least_ms
