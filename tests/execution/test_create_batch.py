"""Creation in batches: equal to one call after another, quick on any table, and one wake-up per lane."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from tests.conftest import Clock, Connect
from tests.execution.creation import Item, Row, create, create_batch, wire_id
from tests.support.cluster import Cluster, Connection

#: What creations leave behind. Executions go by their kind, which is unique: some of their ids are random.
LEFT_BEHIND = """
    select jsonb_build_object(
        'executions', (
            select jsonb_object_agg(
                e.execution_kind,
                to_jsonb(e) - array['execution_id', 'capability_set_id'] || jsonb_build_object(
                    'beside it', to_jsonb(p) - 'execution_id', 'required_capabilities', s.tokens))
            from flowfabric.ff_exec_core as e
            left join flowfabric.ff_exec_payload as p
                on p.partition_key = e.partition_key and p.execution_id = e.execution_id
            join flowfabric.ff_capability_set as s on s.capability_set_id = e.capability_set_id),
        'keys', (
            select jsonb_object_agg(
                k.idempotency_key, jsonb_build_array(e.execution_kind, k.created_at_ms, k.expires_at_ms))
            from flowfabric.ff_execution_idempotency as k
            left join flowfabric.ff_exec_core as e
                on e.partition_key = k.partition_key and e.execution_id = k.execution_id),
        'lanes', (select jsonb_agg(to_jsonb(l) order by l.lane_id) from flowfabric.ff_lane_registry as l),
        'sets', (select jsonb_agg(s.tokens order by s.tokens) from flowfabric.ff_capability_set as s))
"""


def kind_of(connection: Connection, execution_id: str | None) -> str | None:
    row = connection.execute(
        """
        select e.execution_kind from flowfabric.ff_exec_core as e
        where flowfabric.ff_format_execution_id(e.partition_key, e.execution_id) = %s
        """,
        [execution_id],
    ).fetchone()
    return None if row is None else str(row[0])


def left_behind(connection: Connection) -> Any:
    row = connection.execute(LEFT_BEHIND).fetchone()
    assert row is not None
    return row[0]


def single_answer(connection: Connection, item: Item, dedup_ttl_ms: int | None) -> Row:
    """The answer of the single form, as the row that the batch has for it."""
    try:
        with connection.transaction():
            row = create(connection, item, dedup_ttl_ms=dedup_ttl_ms)
    except psycopg.Error as refused:
        detail = json.loads(refused.diag.message_detail or "")
        return {
            "outcome": "refused",
            "execution": None,
            "code": refused.diag.message_primary,
            "sqlstate": refused.sqlstate,
            "detail": {**detail, "fn": "ff_create_executions"},
            "public_state": None,
        }
    return {
        "outcome": row["outcome"],
        "execution": kind_of(connection, row["execution_id"]),
        "code": None,
        "sqlstate": None,
        "detail": None,
        "public_state": row["public_state"],
    }


def batch_answer(connection: Connection, row: Row) -> Row:
    answer = {name: value for name, value in row.items() if name not in ("item", "execution_id")}
    return {**answer, "execution": kind_of(connection, row["execution_id"])}


def items() -> st.SearchStrategy[Item]:
    """Items of which every argument is often absent, and often wrong or the same as another item's."""
    capabilities: st.SearchStrategy[Any] = st.sampled_from(
        [["a"], ["b", "a"], ["a", "b", "a"], [""], ["x y"], {}, None]
    )
    policies = st.sampled_from(
        [
            {},
            [],
            {"dedup_window_ms": 0},
            {"dedup_window_ms": 70, "note": 1},
            {"retry_policy": {"max_retries": "x"}},
            {"budget_ids": ["unknown"]},
            {"stream_policy": {"retention_ttl_ms": 5}, "timeout_policy": {"attempt_timeout_ms": 0}},
        ]
    ) | capabilities.map(lambda tokens: {"routing_requirements": {"required_capabilities": tokens}})
    tags = st.sampled_from(
        [{}, {"app.a": "b", "ff.instance_id": "blue"}, {"app.a": 1}, {"Bad": "x", "ALSO": "x"}, None, 7]
    )
    ids = ["", "{fp:86}:", "{fp:256}:" + wire_id(1)[8:], wire_id(9), *map(wire_id, range(3))]
    return st.builds(
        Item,
        execution_kind=st.sampled_from(["kind", "kind", "kind", "kind", "", None]),
        payload=st.none() | st.sampled_from([b"", b"\x00\xff", b"x" * 128, b"x" * 129]),
        lane_id=st.none() | st.sampled_from(["default", "new", "other", "drained", "paused", "", "größe"]),
        execution_id=st.none() | st.sampled_from([*ids, wire_id(2).upper().replace("FP", "fp")]),
        payload_encoding=st.none() | st.sampled_from(["", "json"]),
        priority=st.none() | st.sampled_from([-5, 0, 50, 9001]),
        policy=st.none() | policies.map(Jsonb),
        tags=st.none() | tags.map(Jsonb),
        delay_until_ms=st.none() | st.sampled_from([-1, 999, 1000, 1001]),
        execution_deadline_at_ms=st.none() | st.sampled_from([0, 5000]),
        idempotency_key=st.none() | st.sampled_from(["", "k1", "k2", "k3", "live", "expired", "x" * 513]),
    )


@pytest.fixture(scope="module")
def stocked(server: Cluster) -> Iterator[Connection]:
    """A transaction in a database with lanes in several states, a live and an expired key; it is 1000."""
    with server.database(server.template) as dsn, psycopg.connect(dsn) as connection:
        clock = Clock(connection)
        clock.freeze(500)
        for lane_id in ("drained", "paused"):
            create(connection, Item(f"of {lane_id}", lane_id=lane_id))
        connection.execute(
            "update flowfabric.ff_lane_registry set lane_state = case lane_id"
            " when 'drained' then 'draining' when 'paused' then 'paused' else 'active' end"
        )
        create(connection, Item("stored", execution_id=wire_id(9)))
        create(connection, Item("keyed", idempotency_key="live"))
        create(connection, Item("formerly keyed", idempotency_key="expired"), dedup_ttl_ms=500)
        clock.freeze(1000)
        yield connection


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batch=st.lists(items(), max_size=9), dedup_ttl_ms=st.sampled_from([None, None, 0, 40]))
def test_a_batch_does_what_the_single_calls_do_one_after_another(
    stocked: Connection, batch: list[Item], dedup_ttl_ms: int | None
) -> None:
    numbered = [
        replace(item, execution_kind=item.execution_kind and f"{item.execution_kind} {number}")
        for number, item in enumerate(batch, start=1)
    ]
    with stocked.transaction(force_rollback=True):
        one_by_one = [single_answer(stocked, item, dedup_ttl_ms) for item in numbered]
        left_by_single_calls = left_behind(stocked)
    with stocked.transaction(force_rollback=True):
        rows = create_batch(stocked, numbered, dedup_ttl_ms=dedup_ttl_ms)
        assert [row["item"] for row in rows] == list(range(1, len(numbered) + 1))
        assert [batch_answer(stocked, row) for row in rows] == one_by_one
        assert left_behind(stocked) == left_by_single_calls


KEYED_AND_NAMED = [Item(execution_id=wire_id(n), idempotency_key=f"k{n}") for n in range(100)]


@pytest.mark.parametrize("rows_before", [0, 50, 5000])
def test_a_batch_reads_no_table_from_end_to_end(connect: Connect, rows_before: int) -> None:
    connection = connect(autocommit=False)
    for start in range(0, rows_before, 500):
        stop = min(start + 500, rows_before)
        create_batch(
            connection,
            [Item(execution_id=wire_id(10_000 + n), idempotency_key=f"b{n}") for n in range(start, stop)],
        )
    connection.commit()
    # Statistics of a few pages invite the planner to a sequential scan.
    connection.execute("analyze")
    connection.commit()

    for _ in range(2):
        create_batch(connection, KEYED_AND_NAMED)
    scanned = connection.execute(
        """
        select relname from pg_stat_xact_user_tables
        where schemaname = 'flowfabric' and seq_scan > 0
            and relname in ('ff_exec_core', 'ff_exec_payload', 'ff_execution_idempotency')
        """
    ).fetchall()
    assert scanned == []


def notified_lanes(listener: Connection) -> list[str]:
    """The notifications that have arrived; `ff_end` marks the last one, so that nothing is waited for."""
    listener.execute("notify ff_end")
    lanes: list[str] = []
    for notification in listener.notifies(timeout=20):
        if notification.channel == "ff_end":
            return lanes
        lanes.append(notification.payload)
    raise AssertionError("the notification that ends the list did not arrive")


def wait_on(connection: Connection, lanes: Sequence[str]) -> None:
    for lane_id in lanes:
        connection.execute(
            "insert into flowfabric.ff_waiter values ('ff_eligible', %s, 'test', 9007199254740991)", [lane_id]
        )


def test_a_batch_wakes_each_lane_with_an_eligible_execution_once(connect: Connect) -> None:
    listener, producer = connect(), connect()
    listener.execute("listen ff_eligible; listen ff_end")
    batch = [
        Item(lane_id="a"),
        Item(lane_id="b"),
        Item(lane_id="a"),
        Item(lane_id="unwatched"),
        Item(lane_id="delayed", delay_until_ms=253402300799999),
        Item("", lane_id="refused"),
        Item(lane_id="duplicate", execution_id=wire_id(1)),
    ]
    create(producer, Item(execution_id=wire_id(1)))
    create_batch(producer, batch)
    assert notified_lanes(listener) == [], "nobody waits, so nothing is sent"

    wait_on(producer, ["a", "b", "delayed", "refused", "duplicate"])
    create_batch(producer, batch)
    assert sorted(notified_lanes(listener)) == ["a", "b"]


def test_a_creation_wakes_its_lane(connect: Connect) -> None:
    listener, producer = connect(), connect(autocommit=False)
    listener.execute("listen ff_eligible; listen ff_end")
    wait_on(producer, ["a"])
    create(producer, Item(lane_id="a", execution_id=wire_id(1)))
    assert notified_lanes(listener) == [], "nothing is sent before the caller commits"
    producer.commit()
    assert notified_lanes(listener) == ["a"]

    create(producer, Item(lane_id="a", execution_id=wire_id(1)))
    create(producer, Item(lane_id="a", delay_until_ms=253402300799999))
    producer.commit()
    create(producer, Item(lane_id="a"))
    producer.rollback()
    assert notified_lanes(listener) == [], "a duplicate, a delayed one and a rollback wake nobody"
