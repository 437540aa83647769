"""A worker in another language: Node, and nothing but SQL."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from flowfabric_client.testing import FlowFabric
from tests.examples.conftest import EXAMPLES, Query, Start, output_of
from tests.support.cluster import REPOSITORY, Cluster
from tests.support.concurrency import wait_until


@pytest.fixture(scope="module")
def program() -> Path:
    """The worker with its one dependency, in a copy: nothing is installed inside of examples/."""
    if shutil.which("npm") is None:
        if os.environ.get("CI"):
            pytest.fail("CI must run the worker in Node, and there is no npm.", pytrace=False)
        pytest.skip("there is no npm")
    # Parallel test processes must not install into the same directory at once.
    home = REPOSITORY / ".cache/node-worker" / os.environ.get("PYTEST_XDIST_WORKER", "only")
    home.mkdir(parents=True, exist_ok=True)
    for file in (EXAMPLES / "node-worker").glob("*.*"):
        shutil.copy(file, home)
    npm = ["npm", "install", "--prefer-offline", "--no-audit", "--no-fund", "--no-package-lock"]
    installed = subprocess.run(npm, cwd=home, capture_output=True, text=True, check=False)
    assert installed.returncode == 0, installed.stderr
    return home / "jobs.mjs"


@pytest.fixture
def start_worker(program: Path, start: Start, server: Cluster, flowfabric: FlowFabric) -> Start:
    """Starts it with the rights of a worker and no others; it polls so seldom that it must be woken."""
    user, password = server.create_login_role("flowfabric_worker")
    url = urlsplit(flowfabric.dsn)
    host = url.netloc.rpartition("@")[2]
    dsn = url._replace(netloc=f"{user}:{password}@{host}").geturl()

    def factory() -> subprocess.Popen[str]:
        return start("node", program, cwd=program.parent, dsn=dsn, POLL_MS="60000", LEASE_TTL_MS="3000")

    return factory


def create(flowfabric: FlowFabric, kind: str, **payload: object) -> str:
    return flowfabric.client.create_execution(
        kind, payload=json.dumps(payload).encode(), lane_id="node"
    ).execution_id


def wait_for_state(flowfabric: FlowFabric, execution_id: str, state: str) -> None:
    wait_until(
        lambda: flowfabric.client.read_execution_state(execution_id) == state, f"{execution_id} was {state}"
    )


def wait_for_line(process: subprocess.Popen[str], text: str) -> None:
    assert process.stdout is not None
    assert any(text in line for line in process.stdout), f"the process ended without saying {text!r}"


def test_it_is_woken_completes_fails_and_drains(
    flowfabric: FlowFabric, start_worker: Start, query: Query
) -> None:
    process = start_worker()
    wait_until(lambda: query("select from flowfabric.ff_waiter") != [], "the worker waited for work")
    greeted = create(flowfabric, "greet", name="Ada")
    refused = create(flowfabric, "refuse")
    unknown = create(flowfabric, "juggle")
    wait_for_state(flowfabric, greeted, "completed")
    wait_for_state(flowfabric, refused, "failed")
    wait_for_state(flowfabric, unknown, "failed")
    result = flowfabric.client.get_execution_result(greeted)
    assert result is not None
    assert result.result == b'{"greeting":"hello, Ada"}'
    reasons = {listing.failure_reason for listing in flowfabric.client.list_attempts(refused)}
    assert reasons == {"not today"}

    running = create(flowfabric, "greet", name="Grace", takes_ms=1_000)
    wait_for_state(flowfabric, running, "active")
    process.send_signal(signal.SIGTERM)
    wait_for_line(process, "draining: 1 executions are running")
    late = create(flowfabric, "greet", name="too late")
    output_of(process)
    assert flowfabric.client.read_execution_state(running) == "completed"
    # A claim that was under way may have taken it; then it was handed back.
    assert flowfabric.client.read_execution_state(late) in {"waiting", "delayed"}
    assert query("select from flowfabric.ff_waiter") == []


def test_a_claim_that_is_under_way_when_the_drain_begins_is_handed_back(
    flowfabric: FlowFabric, start_worker: Start, query: Query
) -> None:
    execution_id = create(flowfabric, "greet", name="Ada")
    with psycopg.connect(flowfabric.dsn) as blocker:
        blocker.execute("lock table flowfabric.ff_exec_core in access exclusive mode")
        process = start_worker()
        claiming = (
            "select from pg_stat_activity where wait_event_type = 'Lock' and query like '%ff_claim_next%'"
        )
        wait_until(lambda: query(claiming) != [], "the worker waited for the answer to its claim")
        process.send_signal(signal.SIGTERM)
        wait_for_line(process, "draining: 0 executions are running")
    output_of(process)
    assert flowfabric.client.read_execution_state(execution_id) == "delayed"
    assert query("select delay_until_ms <= flowfabric.ff_now_ms() from flowfabric.ff_exec_core") == [(True,)]


def test_it_renews_its_lease_and_stops_when_it_is_lost(
    flowfabric: FlowFabric, start_worker: Start, query: Query
) -> None:
    flowfabric.freeze_time()
    execution_id = create(flowfabric, "greet", name="Ada", takes_ms=3_600_000)
    process = start_worker()
    wait_for_state(flowfabric, execution_id, "active")
    flowfabric.advance(1)
    renewed_at = "select lease_last_renewed_at_ms from flowfabric.ff_exec_core"
    wait_until(lambda: query(renewed_at) == [(flowfabric.now_ms,)], "the lease was renewed")
    flowfabric.client.cancel_execution(execution_id, "changed my mind", source="operator_override")
    wait_for_line(process, f"the lease on {execution_id} is lost")
    process.send_signal(signal.SIGTERM)
    output_of(process)


def test_what_a_killed_one_was_doing_is_taken_over(flowfabric: FlowFabric, start_worker: Start) -> None:
    flowfabric.freeze_time()
    hanging = create(flowfabric, "greet", name="Ada", takes_ms=3_600_000)
    victim = start_worker()
    wait_for_state(flowfabric, hanging, "active")
    victim.kill()
    flowfabric.advance(3_000)
    start_worker()
    wait_until(
        lambda: flowfabric.client.read_total_attempt_count(hanging) == 2, "another worker had taken it over"
    )
