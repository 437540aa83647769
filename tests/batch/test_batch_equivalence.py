"""A batch does to each item exactly what the single call would: same rows, same answer, same refusal.

Every kind of item is built twice under a clock that stands still. One twin gets the single call, the other
one is an item of one batch of all kinds.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.batch import support
from tests.batch.support import Lease
from tests.conftest import Clock
from tests.support.cluster import Connection
from tests.support.engine import Row, call

FLOW = UUID(int=0xF10F)
LOST_FLOW = UUID(int=0xF105)
OTHER = UUID(int=0xFF)
RETRY = {"retry_policy": {"max_retries": 2, "backoff": {"type": "exponential", "initial_delay_ms": 70}}}

#: Builds an execution at 1000 ms and returns what its worker will show at 2000 ms.
Build = Callable[[Connection, Lease], Lease]


def held(connection: Connection, lease: Lease) -> Lease:
    support.create(connection, lease)
    support.claim(connection, lease)
    return lease


def with_everything(connection: Connection, lease: Lease) -> Lease:
    """Policy, tags, times, quota slot, reservation, stream and progress."""
    policy = {
        **RETRY,
        "timeout_policy": {"attempt_timeout_ms": 5_000},
        "stream_policy": {"retention_ttl_ms": 60_000},
    }
    support.create(
        connection,
        lease,
        policy,
        payload=b"input",
        namespace="tenant",
        lane_id="gpu",
        tags=Jsonb({"ff.instance_id": "blue"}),
        execution_deadline_at_ms=90_000,
    )
    support.claim(connection, lease)
    support.reserve(connection, lease, "tokens-a", "tokens-b")
    connection.execute(
        """
        insert into flowfabric.ff_quota_policy (
            quota_policy_id, requests_per_window_seconds, max_requests_per_window, active_concurrency_cap,
            created_at_ms, updated_at_ms)
        values ('quota', 60, 10, 10, 0, 0)
        on conflict do nothing
        """
    )
    connection.execute(
        """
        insert into flowfabric.ff_quota_admitted (
            quota_policy_id, partition_key, execution_id, admitted_at_ms, expires_at_ms, slot_held)
        values ('quota', 86, %s, 0, 90000, true)
        """,
        [lease.uuid],
    )
    connection.execute(
        """
        insert into flowfabric.ff_stream_meta (partition_key, execution_id, attempt_index, created_at_ms)
        values (86, %s, 0, 0)
        """,
        [lease.uuid],
    )
    connection.execute(
        "update flowfabric.ff_exec_core set quota_policy_id = 'quota' where execution_id = %s", [lease.uuid]
    )
    connection.execute(
        """
        insert into flowfabric.ff_exec_note (partition_key, execution_id, progress_pct, progress_message)
        values (86, %s, 50, 'half')
        """,
        [lease.uuid],
    )
    return lease


def with_a_small_payload(connection: Connection, lease: Lease) -> Lease:
    support.create(connection, lease, payload=b"input")
    support.claim(connection, lease)
    return lease


def retryable(connection: Connection, lease: Lease) -> Lease:
    support.create(connection, lease, RETRY, execution_deadline_at_ms=90_000)
    support.claim(connection, lease)
    return lease


def on_its_last_retry(connection: Connection, lease: Lease) -> Lease:
    support.create(connection, lease, RETRY)
    connection.execute(
        "update flowfabric.ff_exec_core set retry_count = 2 where execution_id = %s", [lease.uuid]
    )
    support.claim(connection, lease)
    return lease


def renewed(connection: Connection, lease: Lease) -> Lease:
    held(connection, lease)
    call(connection, "ff_renew_lease", **shown(lease), lease_ttl_ms=5_000)
    return lease


def resumed(connection: Connection, lease: Lease) -> Lease:
    """Paused and taken up again: the same attempt under another lease."""
    held(connection, lease)
    call(connection, "ff_delay_execution", **shown(lease), delay_until_ms=1_500)
    taken_up = replace(lease, lease_id=OTHER, lease_epoch=2)
    support.claim(connection, taken_up)
    return taken_up


def reclaimed(connection: Connection, lease: Lease) -> Lease:
    """Revoked and taken over: another attempt."""
    lost(connection, lease)
    call(connection, "ff_revoke_lease", execution_id=lease.execution_id)
    grant = call(
        connection,
        "ff_issue_reclaim_grant",
        execution_id=lease.execution_id,
        worker_id="worker",
        worker_instance_id="worker-2",
    )
    taken_over = replace(lease, lease_id=OTHER, lease_epoch=2, attempt_id=OTHER)
    call(
        connection,
        "ff_reclaim_execution",
        execution_id=lease.execution_id,
        worker_id="worker",
        worker_instance_id="worker-2",
        lease_id=OTHER,
        attempt_id=OTHER,
        grant_key=grant["grant_key"],
    )
    return taken_over


def member(connection: Connection, lease: Lease) -> Lease:
    with_everything(connection, lease)
    support.join_flow(connection, FLOW, lease)
    return lease


def member_of_a_lost_flow(connection: Connection, lease: Lease) -> Lease:
    held(connection, lease)
    support.join_flow(connection, LOST_FLOW, lease)
    return lease


def member_that_lost_its_lease(connection: Connection, lease: Lease) -> Lease:
    lost(connection, lease)
    support.join_flow(connection, FLOW, lease)
    return lease


def waiting(connection: Connection, lease: Lease) -> Lease:
    support.create(connection, lease)
    return lease


def delayed(connection: Connection, lease: Lease) -> Lease:
    support.create(connection, lease, delay_until_ms=9_000)
    return lease


def suspended(connection: Connection, lease: Lease) -> Lease:
    held(connection, lease)
    connection.execute(
        """
        select flowfabric._ff_pause_attempt(e, 'signal', 1000), flowfabric._ff_set_unowned_state(
            e, 'suspended', 'not_applicable', 'waiting_for_signal', null, 'none', 'attempt_interrupted', null,
            %s, %s, 'suspend', 1000)
        from flowfabric.ff_exec_core as e
        where e.execution_id = %s
        """,
        [OTHER, OTHER, lease.uuid],
    )
    return lease


def completed(connection: Connection, lease: Lease) -> Lease:
    held(connection, lease)
    call(connection, "ff_complete_execution", **shown(lease))
    return lease


def retried(connection: Connection, lease: Lease) -> Lease:
    retryable(connection, lease)
    call(connection, "ff_fail_execution", **shown(lease))
    return lease


def cancelled(connection: Connection, lease: Lease) -> Lease:
    held(connection, lease)
    call(connection, "ff_cancel_execution", **shown(lease), reason="not needed")
    return lease


def revoked(connection: Connection, lease: Lease) -> Lease:
    held(connection, lease)
    call(connection, "ff_revoke_lease", execution_id=lease.execution_id, reason="maintenance")
    return lease


def lost(connection: Connection, lease: Lease) -> Lease:
    """Its lease ends at the very instant of the call."""
    support.create(connection, lease)
    support.claim(connection, lease, ttl_ms=1_000)
    return lease


def unknown(connection: Connection, lease: Lease) -> Lease:
    return lease


def shown_without(**parts: Any) -> Build:
    """A held execution whose worker shows a wrong or incomplete lease."""

    def build(connection: Connection, lease: Lease) -> Lease:
        return replace(held(connection, lease), **parts)

    return build


def shown_as(text: str | None) -> Build:
    """Something that is no id."""

    def build(connection: Connection, lease: Lease) -> Lease:
        return replace(lease, execution_id=text)

    return build


KINDS: dict[str, Build] = {
    build.__name__: build
    for build in (
        held,
        with_everything,
        with_a_small_payload,
        retryable,
        on_its_last_retry,
        renewed,
        resumed,
        reclaimed,
        member,
        member_of_a_lost_flow,
        member_that_lost_its_lease,
        waiting,
        delayed,
        suspended,
        completed,
        retried,
        cancelled,
        revoked,
        lost,
        unknown,
    )
} | {
    "no fence": shown_without(lease_id=None, lease_epoch=None, attempt_id=None),
    "no lease id": shown_without(lease_id=None),
    "only an epoch": shown_without(lease_id=None, attempt_id=None),
    "other lease id": shown_without(lease_id=OTHER),
    "other epoch": shown_without(lease_epoch=7),
    "other attempt id": shown_without(attempt_id=OTHER),
    "all of it other": shown_without(lease_id=OTHER, lease_epoch=0, attempt_id=OTHER),
}

#: One of them in a batch, and its ids are read one by one.
MALFORMED: dict[str, Build] = {
    "null": shown_as(None),
    "empty": shown_as(""),
    "no tag": shown_as("00000000-0000-0000-0000-000000000001"),
    "signed partition": shown_as("{fp:+1}:00000000-0000-0000-0000-000000000001"),
    "negative partition": shown_as("{fp:-1}:00000000-0000-0000-0000-000000000001"),
    "padded partition": shown_as("{fp:01}:00000000-0000-0000-0000-000000000001"),
    "spaced partition": shown_as("{fp: 1}:00000000-0000-0000-0000-000000000001"),
    "large partition": shown_as("{fp:32768}:00000000-0000-0000-0000-000000000001"),
    "huge partition": shown_as("{fp:99999999999999999999}:00000000-0000-0000-0000-000000000001"),
    "no hyphens": shown_as("{fp:1}:00000000000000000000000000000001"),
    "misplaced hyphens": shown_as("{fp:1}:000000000000-0000-0000-0000-00000001"),
    "braced uuid": shown_as("{fp:1}:{00000000-0000-0000-0000-0000000001}"),
    "no hexadecimal": shown_as("{fp:1}:0000000g-0000-0000-0000-000000000001"),
    "a digit of another script": shown_as(
        "{fp:1}:\N{FULLWIDTH DIGIT ZERO}0000000-0000-0000-0000-000000000001"
    ),
    "a long text": shown_as("x" * 100_000),
}


@dataclass(frozen=True)
class Operation:
    """A single function, its batch form, and the arguments of their own: one list of variants for each."""

    single: str
    batch: str
    variants: tuple[dict[str, Any], ...]
    plural: dict[str, str]
    shared: dict[str, Any]


def failure(reason: str | None, category: str | None, retry_policy: Any) -> dict[str, Any]:
    return {"failure_reason": reason, "failure_category": category, "retry_policy": retry_policy}


OPERATIONS = [
    Operation(
        "ff_complete_execution",
        "ff_complete_executions",
        (
            {"result": None, "result_encoding": None},
            {"result": b"\x00\xff", "result_encoding": "binary"},
            {"result": b"", "result_encoding": "json"},
            {"result": b"text", "result_encoding": ""},
        ),
        {"result": "results", "result_encoding": "result_encodings"},
        {},
    ),
    Operation(
        "ff_fail_execution",
        "ff_fail_executions",
        (
            failure(None, None, None),
            failure("broken", "transient", None),
            failure("", "", {"max_retries": 9}),
            failure("x" * 500, "permanent", {"max_retries": 9}),
            failure("broken", "timeout", {}),
            failure("late", "timeout", {"max_retries": 1, "retryable_categories": ["timeout"]}),
            failure("broken", None, []),
            failure(None, None, {"max_retries": -1}),
            failure(None, None, {"backoff": {"delay_ms": "soon"}}),
            failure(None, None, {"max_retries": 10**400}),
        ),
        {
            "failure_reason": "failure_reasons",
            "failure_category": "failure_categories",
            "retry_policy": "retry_policies",
        },
        {},
    ),
    Operation("ff_renew_lease", "ff_renew_leases", ({},), {}, {"lease_ttl_ms": 7_000}),
]


def shown(lease: Lease) -> dict[str, Any]:
    """A lease as the arguments of a single call."""
    return {
        "execution_id": lease.execution_id,
        "lease_id": lease.lease_id,
        "lease_epoch": lease.lease_epoch,
        "attempt_id": lease.attempt_id,
    }


def as_sql(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        name: Jsonb(value) if name == "retry_policy" and value is not None else value
        for name, value in arguments.items()
    }


@dataclass(frozen=True)
class Twins:
    """The same item twice: for the single call and for the batch."""

    label: str
    single_uuid: UUID
    single: Lease
    batched_uuid: UUID
    batched: Lease
    arguments: dict[str, Any]


def build_twins(connection: Connection, operation: Operation, kinds: dict[str, Build]) -> Iterator[Twins]:
    number = 0
    for variant, arguments in enumerate(operation.variants):
        for kind, build in kinds.items():
            number += 1
            single = Lease(support.execution_id(number))
            batched = Lease(support.execution_id(1_000_000 + number))
            yield Twins(
                f"{kind}, variant {variant}",
                single.uuid,
                build(connection, single),
                batched.uuid,
                build(connection, batched),
                arguments,
            )


def single_answer(connection: Connection, operation: Operation, twins: Twins) -> Row:
    """The answer of the single call; if it is refused, the refusal in the columns of a batch."""
    try:
        return call(
            connection, operation.single, **shown(twins.single), **as_sql(twins.arguments), **operation.shared
        )
    except psycopg.Error as error:
        return {
            "execution_id": twins.single.execution_id,
            "outcome": "refused",
            "code": error.diag.message_primary,
            "sqlstate": error.sqlstate,
            "detail": json.loads(error.diag.message_detail or "null"),
        }


def comparable(answer: Row, *replacements: tuple[str, str]) -> Row:
    """An answer without its number and without nulls, which the forms have in different columns."""
    known = {name: value for name, value in answer.items() if name != "item" and value is not None}
    text = json.dumps(known, default=str)
    for old, new in replacements:
        text = text.replace(old, new)
    return dict(json.loads(text))


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.batch)
@pytest.mark.parametrize("lease_events", [0, 1])
@pytest.mark.parametrize("kinds", [KINDS, KINDS | MALFORMED], ids=["ids", "ids_and_other_texts"])
def test_batch_and_single_call_do_and_say_the_same(
    db: Connection, clock: Clock, operation: Operation, kinds: dict[str, Build], lease_events: int
) -> None:
    clock.freeze(1_000)
    support.create_flow(db, FLOW)
    call(db, "ff_set_setting", name="lease_events", value=lease_events)
    call(db, "ff_set_setting", name="emit_lease_renewed", value=1)
    everything = list(build_twins(db, operation, kinds))
    random.Random(operation.batch).shuffle(everything)
    clock.freeze(2_000)

    expected = [single_answer(db, operation, twins) for twins in everything]
    answers = support.call_batch(
        db,
        operation.batch,
        [twins.batched for twins in everything],
        **{
            plural: [as_sql(twins.arguments)[name] for twins in everything]
            for name, plural in operation.plural.items()
        },
        **operation.shared,
    )

    traces = support.traces(db)
    assert [answer["item"] for answer in answers] == list(range(1, len(everything) + 1))
    for twins, single, answer in zip(everything, expected, answers, strict=True):
        told = comparable(
            answer,
            (operation.batch, operation.single),
            (support.wire_id(twins.batched_uuid), support.wire_id(twins.single_uuid)),
        )
        assert told == comparable(single), twins.label
        assert traces[twins.batched_uuid] == traces[twins.single_uuid], twins.label
    reserved = "select sum(u.reserved_value)::bigint as tokens from flowfabric.ff_budget_usage as u"
    still_open = "select count(*) * 10 as tokens from flowfabric.ff_budget_reservation where state = 'open'"
    assert support.rows(db, reserved) == support.rows(db, still_open)
