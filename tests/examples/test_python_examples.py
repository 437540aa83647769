"""The examples do what they say."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module

import httpx
import psycopg
import pytest
from fastapi import FastAPI
from psycopg.conninfo import make_conninfo

from flowfabric_client.testing import FlowFabric
from tests.examples.conftest import DEADLINE_S, EXAMPLES, Query, Run, Start, output_of
from tests.support.cluster import Cluster
from tests.support.concurrency import wait_until

WORKER = (sys.executable, "-m", "flowfabric_client", "worker")


def test_an_order_and_its_shipment_are_one_commit(run: Run, query: Query) -> None:
    assert run("transactional_enqueue.py").splitlines() == [
        "order 1 is placed",
        "order 2 is rolled back, and so is its shipment",
        "the shipment of order 1 ended as completed",
    ]
    assert query("select id, state from orders") == [(1, "shipped")]
    assert query("select count(*) from flowfabric.ff_exec_core") == [(1,)]


def test_a_killed_worker_leaves_no_charge_and_another_one_charges_once(
    flowfabric: FlowFabric, start: Start, run: Run, query: Query
) -> None:
    run("exactly_once.py")
    victim = start(*WORKER, "exactly_once:worker", PACE_S="3600")
    in_the_middle = (
        "select from pg_stat_activity where datname = current_database()"
        " and state = 'idle in transaction' and query like 'insert into charge%'"
    )
    wait_until(lambda: len(query(in_the_middle)) == 2, "the worker had charged twice, uncommitted")
    victim.kill()
    victim.wait()
    wait_until(lambda: query(in_the_middle) == [], "the server had noticed the death of the worker")
    assert query("select count(*) from charge") == [(0,)]

    flowfabric.advance(3_000)
    survivor = start(*WORKER, "exactly_once:worker", PACE_S="0")
    ended = "select count(*) from flowfabric.ff_v_execution where state = 'completed'"
    wait_until(lambda: query(ended) == [(10,)], "all charges were done")
    survivor.terminate()
    output_of(survivor)
    assert run("exactly_once.py", "balance") == "10 charges, 0 cents left\n"
    taken_over = "select count(*) from flowfabric.ff_attempt where attempt_type = 'reclaim'"
    assert query(taken_over) == [(2,)]


@pytest.mark.parametrize(("answer", "result"), [("yes", "paid"), ("no", "refused")])
def test_a_refund_is_decided_by_a_role_that_can_do_nothing_else(
    server: Cluster, flowfabric: FlowFabric, start: Start, run: Run, query: Query, answer: str, result: str
) -> None:
    refunding = start("approval.py")
    wait_until(
        lambda: query("select from flowfabric.ff_suspension_current where closed_at_ms is null") != [],
        "the refund waited for its approval",
    )
    assert query("select from flowfabric.ff_exec_core where ownership_state = 'leased'") == []
    user, password = server.create_login_role("flowfabric_signaller")
    approver = make_conninfo(flowfabric.dsn, user=user, password=password)
    assert "resume_condition_satisfied" in run("approve.py", answer, dsn=approver)
    assert f"{result}, says {user}" in output_of(refunding)
    with psycopg.connect(approver) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("select flowfabric.ff_create_execution('refund')")


def test_an_approver_says_yes_or_no(start: Start) -> None:
    process = start("approve.py", "maybe")
    assert process.communicate()[0] == "Say yes or no.\n"
    assert process.returncode == 1


def test_three_of_five_models_are_enough_as_long_as_there_are_tokens(run: Run, query: Query) -> None:
    first, second = run("llm_fan_out.py").split("And why in a database\n")
    assert "ada says: What is a durable execution good for What is" in first
    assert 'completed: {"answers": 3' in first
    assert "skipped: not enough answers" in second
    reasons: dict[str | None, int] = dict(
        query("select failure_reason, count(*) from flowfabric.ff_attempt group by 1")
    )
    assert reasons["dorothy is out of order"] >= 1
    assert any(str(reason).startswith("no tokens left for") for reason in reasons)
    tokens = "select current_value from flowfabric.ff_budget_usage where dimension = 'tokens'"
    ((used,),) = query(tokens)
    assert 60 <= used <= 100
    states = "select state::text from flowfabric.ff_v_execution where kind = 'ask'"
    assert {state for (state,) in query(states)} <= {"completed", "cancelled", "failed"}


def test_a_fastapi_application_and_its_worker_are_one_process(
    flowfabric: FlowFabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLOWFABRIC_DSN", flowfabric.dsn)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(sys.modules, "fastapi_app", raising=False)
    example = import_module("fastapi_app")

    async def use(app: FastAPI) -> None:
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://example") as browser,
        ):
            asked = await browser.post("/reports", json={"subject": "whales"})
            assert (asked.status_code, asked.json()["text"]) == (202, None)
            async with asyncio.timeout(DEADLINE_S):
                while (report := (await browser.get("/reports/1")).json())["text"] is None:
                    await asyncio.sleep(0.01)
            assert report == {"id": 1, "subject": "whales", "text": "Everything about whales."}
            assert (await browser.get("/reports/2")).status_code == 404

    asyncio.run(use(example.app))


DJANGO_REQUESTS = """
import django_app
from django.test import Client

browser = Client(raise_request_exception=False)
for _ in range(2):
    print(browser.post("/subscribers", {"address": "ada@example.org"}).status_code)
print(browser.get("/subscribers").json())
"""


def test_a_django_application_commits_model_and_work_together(start: Start, run: Run, query: Query) -> None:
    run("django_app.py", "create_table")
    printed = run(sys.executable, "-c", DJANGO_REQUESTS)
    assert printed.endswith("{'subscribers': [{'address': 'ada@example.org', 'welcomed': False}]}\n")
    assert [line for line in printed.splitlines() if line.isdecimal()] == ["202", "500"]
    assert query("select count(*) from flowfabric.ff_exec_core") == [(1,)]

    worker = start(*WORKER, "django_app:worker")
    completed = "select from flowfabric.ff_v_execution where state = 'completed'"
    wait_until(lambda: query(completed) != [], "the subscriber was welcomed")
    worker.terminate()
    assert "WARNING" not in output_of(worker)
    assert query("select address, welcomed from newsletter_subscriber") == [("ada@example.org", True)]
    assert query("select count(*) from flowfabric.ff_v_attempt") == [(1,)]
