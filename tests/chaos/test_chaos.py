"""The short form: every fault once, on one deployment whose workers live through all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from random import Random

import psycopg
import pytest

from flowfabric_client import Client
from tests.chaos.accounting import assert_all_accounted_for, unfinished
from tests.chaos.deployment import Deployment, deployment
from tests.chaos.faults import FAULTS, WAYS, Fault, KilledWorkers
from tests.chaos.work import Work, submit
from tests.support.concurrency import wait_until
from tests.support.pgbouncer import PgBouncer

EXECUTIONS = 120
SEED = 20_241

pytestmark = pytest.mark.skipif(
    bool(os.environ.get("FLOWFABRIC_TEST_DSN")), reason="restarts the server, so it needs one of its own"
)


@pytest.fixture(scope="module")
def running_work() -> Iterator[tuple[Deployment, Work]]:
    ways = [way for way in WAYS if way != "pgbouncer" or PgBouncer.is_installed()]
    with deployment(Random(SEED)) as running:
        running.start_workers(ways)
        yield running, Work()


@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.__name__)
def test_all_work_is_done_once_whatever_happens(
    running_work: tuple[Deployment, Work], fault: type[Fault]
) -> None:
    running, work = running_work
    if fault.letter == "e" and not PgBouncer.is_installed():
        pytest.skip("PgBouncer is not installed")
    workers = {worker.pid for worker in running.workers}
    with Client(running.dsn) as client:
        work.add(submit(client, EXECUTIONS, running.dice))
    wait_for(running, lambda left: left < EXECUTIONS * 9 // 10, "work was under way")

    fault().inflict(running)

    wait_for(running, lambda left: left == 0, "all work was done")
    assert_all_accounted_for(running.dsn, work)
    assert all(worker.is_alive for worker in running.workers)
    if fault is not KilledWorkers:
        assert {worker.pid for worker in running.workers} == workers, "nobody had to be started again"


def wait_for(running: Deployment, condition: Callable[[int], bool], what: str) -> None:
    with psycopg.connect(running.dsn, autocommit=True) as db:
        wait_until(lambda: condition(unfinished(db)), what, 60)
