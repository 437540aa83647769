"""Running an application's worker in the test's own process until nothing is left to do."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from flowfabric_client import Client, errors
from flowfabric_client.flow import Flow
from flowfabric_client.testing import FlowFabric, NotIdleError, Ran, harness
from flowfabric_client.worker import Context, Worker, events
from tests.testing import app

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def create(flowfabric: FlowFabric, kind: str, payload: Any = None, **arguments: Any) -> str:
    return flowfabric.client.create_execution(
        kind, payload=json.dumps(payload).encode(), **arguments
    ).execution_id


def hourly_retries(count: int) -> dict[str, Any]:
    return {
        "retry_policy": {"max_retries": count, "backoff": {"type": "fixed", "delay_ms": 3_600_000}},
    }


def state(client: Client, execution_id: str) -> str | None:
    return client.read_execution_state(execution_id)


def result(flowfabric: FlowFabric, execution_id: str) -> bytes | None:
    found = flowfabric.client.get_execution_result(execution_id)
    assert found is not None
    return found.result


def outcomes(ran: list[Ran]) -> list[str]:
    return [run.outcome for run in ran]


def test_the_handlers_of_a_worker_for_another_database_run_here(flowfabric: FlowFabric) -> None:
    execution_id = create(flowfabric, "echo", {"to": "ada"})
    assert flowfabric.run_until_idle(app.worker) == [Ran(execution_id, "echo", 0, "completed")]
    assert result(flowfabric, execution_id) == b'{"to": "ada"}'
    assert flowfabric.run_until_idle(app.worker) == []


def test_more_work_than_fits_at_once_is_all_done(flowfabric: FlowFabric) -> None:
    ids = {create(flowfabric, "echo", number, lane_id="slow") for number in range(7)}
    assert {run.execution_id for run in flowfabric.run_until_idle(app.worker)} == ids


def test_what_a_handler_creates_runs_too(flowfabric: FlowFabric) -> None:
    create(flowfabric, "creates_another")
    assert [run.kind for run in flowfabric.run_until_idle(app.worker)] == ["creates_another", "echo"]


def test_a_handler_may_wait_for_another_execution(flowfabric: FlowFabric) -> None:
    create(flowfabric, "waits_for_another", {"dsn": flowfabric.dsn})
    assert [run.kind for run in flowfabric.run_until_idle(app.worker)] == ["echo", "waits_for_another"]


def test_what_failed_says_why(flowfabric: FlowFabric) -> None:
    refused = create(flowfabric, "refuses")
    unknown = create(flowfabric, "nobody_does_this")
    ran = {run.execution_id: run for run in flowfabric.run_until_idle(app.worker)}
    assert ran[refused] == Ran(refused, "refuses", 0, "failed", "no such customer")
    assert ran[unknown].reason == "unknown kind: nobody_does_this"


def test_a_retry_waits_for_its_time_and_not_for_ours(flowfabric: FlowFabric) -> None:
    flowfabric.freeze_time(NOON)
    execution_id = create(flowfabric, "succeeds_at_attempt", 1, policy=hourly_retries(1))
    (first,) = flowfabric.run_until_idle(app.worker)
    assert (first.outcome, first.reason) == ("retrying", "attempt 0 of the mail server")
    flowfabric.advance(timedelta(hours=1) - timedelta(milliseconds=1))
    assert flowfabric.run_until_idle(app.worker) == []
    flowfabric.advance(1)
    assert flowfabric.run_until_idle(app.worker) == [Ran(execution_id, "succeeds_at_attempt", 1, "completed")]


def test_the_clock_can_go_from_one_due_time_to_the_next(flowfabric: FlowFabric) -> None:
    flowfabric.freeze_time(NOON)
    create(flowfabric, "succeeds_at_attempt", 3, policy=hourly_retries(3))
    ran = flowfabric.run_until_idle(app.worker, advance=True)
    assert outcomes(ran) == ["retrying", "retrying", "retrying", "completed"]
    assert flowfabric.now == NOON + timedelta(hours=3)


def test_the_clock_goes_no_further_than_it_may_and_ends_there(flowfabric: FlowFabric) -> None:
    flowfabric.freeze_time(NOON)
    create(flowfabric, "succeeds_at_attempt", 3, policy=hourly_retries(3))
    assert outcomes(flowfabric.run_until_idle(app.worker, advance=timedelta(minutes=90))) == ["retrying"] * 2
    assert flowfabric.now == NOON + timedelta(minutes=90)


def test_the_clock_may_run_meanwhile(flowfabric: FlowFabric) -> None:
    create(flowfabric, "succeeds_at_attempt", 1, policy=hourly_retries(1))
    assert outcomes(flowfabric.run_until_idle(app.worker, advance=True)) == ["retrying", "completed"]


def test_a_delay_is_due_at_its_time(flowfabric: FlowFabric) -> None:
    flowfabric.freeze_time(NOON)
    until_ms = flowfabric.now_ms + 5_000
    create(flowfabric, "delays", until_ms)
    assert outcomes(flowfabric.run_until_idle(app.worker, advance=True)) == ["delayed", "completed"]
    assert flowfabric.now_ms == until_ms


def test_a_suspended_execution_goes_on_with_the_signal(flowfabric: FlowFabric) -> None:
    execution_id = create(flowfabric, "asks")
    assert outcomes(flowfabric.run_until_idle(app.worker)) == ["suspended"]
    assert flowfabric.run_until_idle(app.worker) == []
    flowfabric.deliver(execution_id, "answered", 42)
    assert flowfabric.run_until_idle(app.worker) == [Ran(execution_id, "asks", 0, "completed")]
    assert result(flowfabric, execution_id) == b"42"


def test_a_suspended_execution_goes_on_without_one_when_its_time_is_up(flowfabric: FlowFabric) -> None:
    flowfabric.freeze_time(NOON)
    execution_id = create(flowfabric, "asks")
    ran = flowfabric.run_until_idle(app.worker, advance=timedelta(hours=23))
    assert outcomes(ran) == ["suspended"]
    assert outcomes(flowfabric.run_until_idle(app.worker, advance=timedelta(hours=1))) == ["completed"]
    assert result(flowfabric, execution_id) == b"nobody answered"


def test_a_parent_sees_its_children_end(flowfabric: FlowFabric) -> None:
    flowfabric.freeze_time(NOON)
    execution_id = create(flowfabric, "has_children")
    ran = flowfabric.run_until_idle(app.worker, advance=True)
    assert [run.outcome for run in ran if run.kind == "echo"] == ["completed"] * 2
    assert {run.outcome for run in ran[:-1]} == {"completed", "waiting_children"}
    assert ran[-1] == Ran(execution_id, "has_children", 0, "completed")
    assert result(flowfabric, execution_id) == b'["completed", "completed"]'


def test_work_that_another_worker_lost_is_taken_over(flowfabric: FlowFabric) -> None:
    flowfabric.freeze_time(NOON)
    execution_id = create(flowfabric, "echo", 1)
    flowfabric.client.claim_next(["default"], "other", "other-1", lease_ttl_ms=10_000)
    assert flowfabric.run_until_idle(app.worker, advance=9_999) == []
    assert flowfabric.run_until_idle(app.worker, advance=1) == [Ran(execution_id, "echo", 1, "completed")]


def test_a_deadline_ends_what_nobody_runs(flowfabric: FlowFabric) -> None:
    flowfabric.freeze_time(NOON)
    deadline_ms = flowfabric.now_ms + 60_000
    execution_id = create(flowfabric, "echo", lane_id="nobody", execution_deadline_at_ms=deadline_ms)
    assert flowfabric.run_until_idle(app.worker, advance=True) == []
    assert state(flowfabric.client, execution_id) == "expired"
    assert flowfabric.now_ms == deadline_ms


def test_a_quota_lets_through_what_time_allows(flowfabric: FlowFabric) -> None:
    flowfabric.freeze_time(NOON)
    flowfabric.client.create_quota_policy("mails", 60, 1, 0)
    for _ in range(3):
        create(flowfabric, "echo", policy={"quota_policy_id": "mails"})
    assert outcomes(flowfabric.run_until_idle(app.worker)) == ["completed"]
    assert outcomes(flowfabric.run_until_idle(app.worker, advance=True)) == ["completed"] * 2
    assert flowfabric.now == NOON + timedelta(minutes=2)


def test_a_budget_lets_through_what_its_reset_allows(flowfabric: FlowFabric) -> None:
    flowfabric.freeze_time(NOON)
    flowfabric.client.create_budget(
        "tokens",
        "lane",
        "default",
        dimensions=["n"],
        hard_limits=[1],
        soft_limits=[0],
        reset_interval_ms=60_000,
    )
    flowfabric.client.report_usage_and_check("tokens", ["n"], [1], source="operator_override")
    execution_id = create(flowfabric, "echo", policy={"budget_ids": ["tokens"]})
    assert flowfabric.run_until_idle(app.worker) == []
    assert state(flowfabric.client, execution_id) == "rate_limited"
    assert outcomes(flowfabric.run_until_idle(app.worker, advance=True)) == ["completed"]
    assert flowfabric.now == NOON + timedelta(minutes=1)


def test_the_scanners_that_are_treated_apart_exist(flowfabric: FlowFabric) -> None:
    scanners = {listing.scanner for listing in flowfabric.client.list_scanners()}
    assert harness.HOUSEKEEPING | {harness.NEVER_DONE} <= scanners


def test_the_tasks_of_a_flow_run_in_their_order(flowfabric: FlowFabric) -> None:
    flow = (
        Flow().task("first", kind="echo", payload=1).task("second", kind="echo", after=["first"], payload=2)
    )
    flow = flow.any_of("third", kind="echo", after=["first", "second"], payload=3)
    members = {row.name: row.execution_id for row in flowfabric.client.submit_flow(flow.to_json())}
    flowfabric.freeze_time()
    ran = [run.execution_id for run in flowfabric.run_until_idle(app.worker)]
    assert ran[0] == members["first"]
    assert set(ran[1:]) == {members["second"], members["third"]}


def test_observers_of_the_worker_hear_of_it(flowfabric: FlowFabric) -> None:
    app.observed.clear()
    execution_id = create(flowfabric, "echo")
    flowfabric.run_until_idle(app.worker)
    completed = [event for event in app.observed if isinstance(event, events.Completed)]
    assert [event.execution_id for event in completed] == [execution_id]


def test_handlers_of_the_test_itself_run_in_a_worker_made_here(flowfabric: FlowFabric) -> None:
    worker = flowfabric.worker(lanes=["mail"], capabilities=["smtp"])

    @worker.handler("send")
    async def send(ctx: Context) -> str:
        return "sent"

    create(
        flowfabric,
        "send",
        lane_id="mail",
        policy={"routing_requirements": {"required_capabilities": ["smtp"]}},
    )
    assert outcomes(flowfabric.run_until_idle(worker)) == ["completed"]


def test_handlers_that_never_end_are_named(flowfabric: FlowFabric) -> None:
    hanging = [f"{kind} {create(flowfabric, kind)}" for kind in ("hangs", "hangs_in_a_thread")]
    with pytest.raises(NotIdleError) as raised:
        flowfabric.run_until_idle(app.worker, timeout_s=2)
    assert all(name in str(raised.value) for name in hanging)


def test_a_worker_whom_the_database_refuses_fails_the_test(flowfabric: FlowFabric) -> None:
    with pytest.raises(errors.ValidationError):
        flowfabric.run_until_idle(Worker(lanes=["x" * 1_000]))


def test_asynchronous_tests_run_it_in_their_own_loop(flowfabric: FlowFabric) -> None:
    loops = []
    worker = flowfabric.worker()

    @worker.handler("which_loop")
    async def which_loop(ctx: Context) -> None:
        loops.append(asyncio.get_running_loop())

    async def test() -> list[Ran]:
        create(flowfabric, "which_loop")
        with pytest.raises(RuntimeError, match="run_until_idle_async"):
            flowfabric.run_until_idle(worker)
        ran = await flowfabric.run_until_idle_async(worker)
        assert loops == [asyncio.get_running_loop()]
        return ran

    assert outcomes(asyncio.run(test())) == ["completed"]
