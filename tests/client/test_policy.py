"""Policies in Python: the same fields as the engine's, accepted wherever a mapping is."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest

from flowfabric_client import (
    AsyncClient,
    Backoff,
    Client,
    Flow,
    Policy,
    Retry,
    Routing,
    Streams,
    Timeouts,
    errors,
)
from tests.client.support import Kind, claimed
from tests.support.cluster import Connection

POLICY = Policy(
    routing_requirements=Routing(required_capabilities=["gpu"]),
    retry_policy=Retry(5, backoff=Backoff.fixed(2000), retryable_categories=["timeout"]),
    timeout_policy=Timeouts(attempt_timeout_ms=60_000),
    max_reclaim_count=3,
    max_replay_count=4,
    max_signals_per_execution=5,
    dedup_window_ms=6,
    stream_policy=Streams(retention_ttl_ms=7),
    budget_ids=["llm"],
    quota_policy_id="start",
)
DOCUMENT = {
    "routing_requirements": {"required_capabilities": ["gpu"]},
    "retry_policy": {
        "max_retries": 5,
        "backoff": {"type": "fixed", "delay_ms": 2000, "jitter": 0.2},
        "retryable_categories": ["timeout"],
    },
    "timeout_policy": {"attempt_timeout_ms": 60_000},
    "max_reclaim_count": 3,
    "max_replay_count": 4,
    "max_signals_per_execution": 5,
    "dedup_window_ms": 6,
    "stream_policy": {"retention_ttl_ms": 7},
    "budget_ids": ["llm"],
    "quota_policy_id": "start",
}


def fields_of(document: type[Any], *path: str) -> Iterator[tuple[Any, ...]]:
    """The fields of a class and of the classes below it, as the engine lists its own."""
    for member in fields(document):
        facts = member.metadata
        legal = facts.get("legal")
        here = (*path, member.name)
        yield list(here), facts["kind"], legal and list(legal), facts.get("variant")
        if facts["kind"] == "object":
            yield from fields_of(facts["document"], *here)


def test_the_classes_have_the_fields_of_the_engine(db: Connection) -> None:
    engine = db.execute(
        "select path, kind, legal_values, variant from flowfabric._ff_policy_keys()"
    ).fetchall()
    assert list(fields_of(Policy)) == engine


def test_a_policy_is_the_document_that_it_stands_for(client: Client) -> None:
    client.create_budget("llm", "lane", "default", dimensions=["tokens"], hard_limits=[9], soft_limits=[0])
    client.create_quota_policy("start", 60, 10, 1)
    assert dict(POLICY) == POLICY.to_json() == DOCUMENT
    assert (len(POLICY), "budget_ids" in POLICY, "bogus" in POLICY) == (10, True, False)
    created = client.create_execution("test", policy=POLICY)
    assert client.read_execution_context(created.execution_id).policy == DOCUMENT


@pytest.mark.parametrize(
    ("policy", "document"),
    [
        (Policy(), {}),
        (
            Policy(retry_policy=Retry(1)),
            {"retry_policy": {"max_retries": 1, "backoff": {"type": "exponential", "jitter": 0.2}}},
        ),
        (Policy(retry_policy=Retry(1, backoff=None)), {"retry_policy": {"max_retries": 1}}),
        (Retry(0, backoff=Backoff.fixed(jitter=None)), {"max_retries": 0, "backoff": {"type": "fixed"}}),
        (Backoff(), {"type": "exponential", "jitter": 0.2}),
        (
            Backoff.exponential(10, max_delay_ms=100, multiplier=1.5, jitter=1),
            {
                "type": "exponential",
                "initial_delay_ms": 10,
                "max_delay_ms": 100,
                "multiplier": 1.5,
                "jitter": 1,
            },
        ),
        (
            Policy(max_reclaim_count=0, budget_ids=[], timeout_policy=Timeouts()),
            {"max_reclaim_count": 0, "timeout_policy": {}},
        ),
    ],
)
def test_what_is_not_given_is_left_to_the_engine(policy: Any, document: dict[str, Any]) -> None:
    assert policy.to_json() == document


def test_both_clients_take_it_alone_in_batches_in_flows_and_with_a_failure(kind: Kind, database: str) -> None:
    policy = Policy(retry_policy=Retry(3, backoff=Backoff.fixed(0, jitter=0)))
    flow = Flow().task("one", policy=policy)

    async def in_loop() -> list[Any]:
        async with AsyncClient(database) as client:
            alone = await client.create_execution("test", policy=policy)
            (batched,) = await client.create_executions(["test"], policies=[policy])
            (member,) = await client.submit_flow(flow.to_json())
            ids = [alone.execution_id, batched.execution_id, member.execution_id]
            return [await client.read_execution_context(str(found)) for found in ids]

    def here() -> list[Any]:
        with Client(database) as client:
            alone = client.create_execution("test", policy=policy)
            (batched,) = client.create_executions(["test"], policies=[policy])
            (member,) = client.submit_flow(flow.to_json())
            ids = [alone.execution_id, batched.execution_id, member.execution_id]
            return [client.read_execution_context(str(found)) for found in ids]

    contexts = asyncio.run(in_loop()) if kind == "async" else here()
    assert [context.policy for context in contexts] == [policy.to_json()] * 3


def test_a_failure_takes_a_retry(client: Client) -> None:
    handle = claimed(client)
    failed = client.fail_execution(**handle.arguments(), retry_policy=Retry(1, backoff=Backoff.fixed(0)))
    assert failed.outcome == "retry_scheduled"


def test_a_mapping_with_another_word_is_refused_with_the_nearest(client: Client) -> None:
    with pytest.raises(
        errors.InvalidPolicyJsonError, match=r"nearest=\"retry_policy.max_retries\""
    ) as raised:
        client.create_execution("test", policy={"retries": 3})
    assert raised.value.details["path"] == "retries"
    assert "retry_policy" in raised.value.details["legal"]


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Policy(retries=3), TypeError, "retries"),  # type: ignore[call-arg]
        (Retry, TypeError, "max_retries"),
        (lambda: Retry(None), TypeError, "max_retries must be a number"),  # type: ignore[arg-type]
        (lambda: Retry(True), TypeError, "max_retries must be a number"),
        (lambda: Retry(-1), ValueError, "max_retries must be between 0"),
        (lambda: Retry(2**53), ValueError, "max_retries must be between 0"),
        (lambda: Retry(1, backoff={"type": "fixed"}), TypeError, "must be a Backoff"),  # type: ignore[arg-type]
        (lambda: Retry(1, retryable_categories="timeout"), TypeError, "takes several texts"),
        (lambda: Policy(budget_ids=[1]), TypeError, "takes texts"),  # type: ignore[list-item]
        (lambda: Policy(quota_policy_id=1), TypeError, "must be a text"),  # type: ignore[arg-type]
        (lambda: Backoff(type="linear"), ValueError, "exponential, fixed"),  # type: ignore[arg-type]
        (lambda: Backoff(delay_ms=5), ValueError, "type fixed"),
        (lambda: Backoff(type="fixed", multiplier=5), ValueError, "type exponential"),
        (lambda: Backoff(jitter=1.1), ValueError, "jitter must be between 0 and 1"),
        (lambda: Backoff.fixed(float("nan")), ValueError, "delay_ms"),
        (lambda: Backoff.fixed(float("inf")), ValueError, "delay_ms"),
    ],
)
def test_what_the_engine_would_refuse_is_refused_when_it_is_made(
    make: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make()


def test_a_policy_is_a_value() -> None:
    again = copy.deepcopy(POLICY)
    assert again == POLICY == pickle.loads(pickle.dumps(POLICY))
    assert hash(again) == hash(POLICY)
    assert Policy() != POLICY
