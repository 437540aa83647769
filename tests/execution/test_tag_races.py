"""Tags in an open transaction: which calls go on beside it, and what they find afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.conftest import Clock, Connect
from tests.flow.flows import submit
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked
from tests.support.engine import Row, call

EXECUTION = f"{{fp:86}}:{UUID(int=1)}"
TAGS = {"app.run": "7"}
INSTANCE_TAG = "ff.instance_id"


def tag(connection: Connection, tags: dict[str, str] | None = None, execution_id: str = EXECUTION) -> Row:
    return call(connection, "ff_set_execution_tags", execution_id=execution_id, tags=Jsonb(tags or TAGS))


def tags_of(connection: Connection, execution_id: str = EXECUTION) -> dict[str, str]:
    found: dict[str, str] = call(connection, "ff_describe_execution", execution_id=execution_id)["tags"]
    return found


def create(connection: Connection, execution_id: str = EXECUTION, **arguments: Any) -> None:
    call(connection, "ff_create_execution", execution_kind="test", execution_id=execution_id, **arguments)


def claim(connection: Connection, function: str = "ff_claim_next") -> Row:
    return call(
        connection, function, lanes=["default"], worker_id="w", worker_instance_id="w-1", lease_ttl_ms=1_000
    )


def fence(claimed: Row) -> dict[str, Any]:
    return {name: claimed[name] for name in ("execution_id", "lease_id", "lease_epoch", "attempt_id")}


def impatient(connect: Connect) -> Connection:
    """A session in which any wait for a lock is an error."""
    return connect(options="-c lock_timeout=1ms")


# What goes on beside an open transaction


@pytest.mark.parametrize("payload", [None, b"small", b"x" * 1000])
def test_an_execution_is_claimed_renewed_and_completed_while_its_tags_are_being_set(
    connect: Connect, db: Connection, payload: bytes | None
) -> None:
    create(db, payload=payload, tags=Jsonb({"app.run": "1", "app.kept": "yes"}))
    tagger, worker = connect(autocommit=False), impatient(connect)
    tag(tagger)
    claimed = claim(worker)
    assert claimed["tags"] == {"app.run": "1", "app.kept": "yes"}
    assert call(worker, "ff_renew_lease", **fence(claimed))
    assert call(worker, "ff_complete_execution", result=b"output", **fence(claimed))["outcome"] == "completed"
    tagger.commit()
    assert tags_of(db) == {"app.run": "7", "app.kept": "yes"}
    assert call(db, "ff_get_execution_result", execution_id=EXECUTION)["result"] == b"output"
    assert db.execute("select * from flowfabric.ff_check_invariants()").fetchall() == []


def test_an_execution_is_failed_retried_and_taken_over_while_its_tags_are_being_set(
    connect: Connect, db: Connection, clock: Clock
) -> None:
    clock.freeze(1_000)
    policy = {"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 0}}}
    create(db, policy=Jsonb(policy))
    tagger, worker = connect(autocommit=False), impatient(connect)
    tag(tagger)
    call(worker, "ff_fail_execution", failure_reason="x", **fence(claim(worker)))
    claim(worker)
    clock.advance(1_000)
    assert claim(worker, "ff_reclaim_next")["tags"] == {}
    tagger.commit()
    # A second takeover without progress waits for its back-off.
    clock.advance(10_000)
    assert claim(worker, "ff_reclaim_next")["tags"] == TAGS


FLOW_CALLS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "ff_complete_execution": lambda held: held,
    "ff_fail_execution": lambda held: held,
    "ff_complete_executions": lambda held: {f"{name}s": [value] for name, value in held.items()},
}


@pytest.mark.parametrize("function", FLOW_CALLS)
def test_a_member_ends_while_the_tags_of_its_flow_and_of_its_child_are_being_set(
    connect: Connect, db: Connection, function: str
) -> None:
    flow = submit(db, "ab", [("a", "b")])
    held = flow.claim(db, "a")
    tagger, worker = connect(autocommit=False), impatient(connect)
    call(tagger, "ff_set_flow_tags", flow_id=flow.flow_id, tags=Jsonb(TAGS))
    for name in "ab":
        tag(tagger, execution_id=flow.ids[name])
    answer = call(worker, function, **FLOW_CALLS[function](held))
    assert answer["outcome"] in {"completed", "terminal_failed"}
    tagger.commit()
    assert flow.states(db)["b"] in {"waiting", "skipped"}
    assert tags_of(db, flow.ids["b"]) == TAGS
    assert call(db, "ff_describe_flow", flow_id=flow.flow_id)["tags"] == TAGS
    flow.assert_sound(db)


def test_tags_are_set_while_a_worker_holds_the_execution(connect: Connect, db: Connection) -> None:
    create(db)
    worker, tagger = connect(autocommit=False), impatient(connect)
    claimed = claim(worker)
    tag(tagger)
    worker.commit()
    call(worker, "ff_complete_execution", **fence(claimed))
    tag(tagger, {"app.run": "8"})
    worker.commit()
    assert tags_of(db) == {"app.run": "8"}


def test_the_first_tags_of_an_installation_do_not_wait_for_each_other_and_every_claim_has_them(
    connect: Connect, db: Connection
) -> None:
    ids = [f"{{fp:86}}:{UUID(int=number)}" for number in (1, 2, 3)]
    for execution_id in ids:
        create(db, execution_id)
    first, second = connect(autocommit=False), impatient(connect)
    tag(first, execution_id=ids[0])
    tag(second, execution_id=ids[1])
    first.rollback()
    worker = connect()
    assert [claim(worker)["tags"] for _ in ids[:2]] == [{}, TAGS]
    tag(first, execution_id=ids[2])
    first.commit()
    assert claim(worker)["tags"] == TAGS
    assert db.execute("select * from flowfabric.ff_check_invariants()").fetchall() == []


def test_the_newest_of_the_first_tags_wins_wherever_it_was_put(connect: Connect, db: Connection) -> None:
    create(db, payload=b"small", tags=Jsonb({"app.given": "1"}))
    holder, tagger = connect(autocommit=False), connect()
    holder.execute("select from flowfabric.ff_partition_config for no key update")
    tag(tagger, {"app.run": "1"})
    holder.rollback()
    tag(tagger, {"app.run": "2"})
    claimed = claim(db)
    assert claimed["tags"] == {"app.given": "1", "app.run": "2"} == tags_of(db)
    assert claimed["payload"] == b"small"


# Who still waits


def test_two_sessions_that_tag_one_execution_leave_the_tags_of_both(connect: Connect, db: Connection) -> None:
    create(db)
    tag(db, {"app.zero": "0"})
    first, second = connect(autocommit=False), connect()
    tag(first, {"app.first": "1", "app.both": "1"})
    waiting = in_background(lambda: tag(second, {"app.second": "2", "app.both": "2"}))
    wait_until_blocked(db, second, by=first)
    first.commit()
    waiting.result()
    assert tags_of(db) == {"app.zero": "0", "app.first": "1", "app.second": "2", "app.both": "2"}


def test_the_instance_tag_holds_the_row_that_events_copy_it_from(connect: Connect, db: Connection) -> None:
    create(db)
    claimed = claim(db)
    tagger, worker = connect(autocommit=False), connect()
    tag(tagger, {INSTANCE_TAG: "blue"})
    waiting = in_background(lambda: call(worker, "ff_complete_execution", **fence(claimed)))
    wait_until_blocked(db, worker, by=tagger)
    tagger.commit()
    waiting.result()
    assert db.execute("select instance_tag from flowfabric.ff_completion_event").fetchall() == [("blue",)]


def test_retention_passes_over_what_is_being_tagged_and_a_tag_for_the_deleted_is_refused(
    connect: Connect, db: Connection, clock: Clock
) -> None:
    clock.freeze(1_000)
    create(db)
    flow = submit(db, "a")
    for claimed in (claim(db), claim(db)):
        call(db, "ff_complete_execution", **fence(claimed))
    clock.advance(2 * 86_400_000)
    tagger, scanner = connect(autocommit=False), impatient(connect)
    tag(tagger)
    trimmed = call(scanner, "ff_trim_retention")
    assert (trimmed["processed"], trimmed["errors"]) == (1, 0)
    call(tagger, "ff_set_flow_tags", flow_id=flow.flow_id, tags=Jsonb(TAGS))
    clock.advance(30 * 86_400_000)
    assert call(scanner, "ff_trim_retention")["flows_purged"] == 0
    tagger.commit()
    trimmed = call(scanner, "ff_trim_retention")
    assert (trimmed["processed"], trimmed["flows_purged"], trimmed["errors"]) == (1, 1, 0)
    assert (
        db.execute(
            "select from flowfabric.ff_exec_tag union all select from flowfabric.ff_flow_tag"
        ).fetchall()
        == []
    )
    create(db)
    call(db, "ff_complete_execution", **fence(claim(db)))
    clock.advance(86_400_000)
    deleter, late = connect(autocommit=False), connect()
    call(deleter, "ff_trim_retention")
    waiting = in_background(lambda: tag(late))
    wait_until_blocked(db, late, by=deleter)
    deleter.commit()
    with pytest.raises(psycopg.Error, match="execution_not_found"):
        waiting.result()
    assert db.execute("select from flowfabric.ff_exec_tag").fetchall() == []
