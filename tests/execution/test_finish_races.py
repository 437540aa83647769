"""Two sessions end the same execution, or one ends it inside a transaction of the application's own."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.conftest import Clock, Connect
from tests.support.cluster import Connection
from tests.support.concurrency import Background, in_background, wait_until_blocked
from tests.support.engine import Ask, Race, Row, call

EXECUTION = "{fp:86}:00000000-0000-4000-8000-000000000001"
FLOW = "00000000-0000-4000-8000-00000000f10f"

Fence = dict[str, Any]


def texts(connection: Connection, statement: str) -> list[str]:
    return [text for (text,) in connection.execute(statement).fetchall()]


def state(connection: Connection) -> str:
    (public_state,) = texts(connection, "select e.state::text from flowfabric.ff_v_execution as e")
    return public_state


def completions(connection: Connection) -> list[str]:
    return texts(
        connection, "select v.outcome::text from flowfabric.ff_completion_event as v order by v.event_id"
    )


def lease_events(connection: Connection) -> list[str]:
    return texts(
        connection,
        "select concat_ws(':', v.event_type, v.reason)"
        " from flowfabric.ff_lease_event as v order by v.event_id",
    )


def attempts(connection: Connection) -> list[str]:
    return texts(
        connection,
        "select a.attempt_state::text from flowfabric._ff_all_attempts() as a order by a.attempt_index",
    )


def refusal(waiting: Background[Row]) -> Row:
    """The detail with which the engine refused the call."""
    with pytest.raises(psycopg.Error) as refused:
        waiting.result()
    detail = refused.value.diag.message_detail
    assert detail is not None, refused.value
    return dict(json.loads(detail))


def with_fence(function: str, fence: Fence, **arguments: Any) -> Ask:
    return lambda connection: call(connection, function, **fence, **arguments)


def completing(fence: Fence) -> Ask:
    return with_fence("ff_complete_execution", fence)


def cancel(connection: Connection) -> Row:
    return call(
        connection, "ff_cancel_execution", execution_id=EXECUTION, reason="stop", source="operator_override"
    )


def expire(connection: Connection) -> Row:
    return call(connection, "ff_expire_execution", execution_id=EXECUTION, require_due=True)


def mark(connection: Connection) -> Row:
    return call(connection, "ff_mark_lease_expired_if_due", execution_id=EXECUTION)


@pytest.fixture
def leased(db: Connection, race: Race) -> Fence:
    """An execution that worker-1 holds until 1500 ms, with an attempt timeout at 1400 ms; its fence."""
    call(db, "ff_create_execution", execution_kind="test", execution_id=EXECUTION, payload=b"input")
    claim = call(
        db,
        "ff_issue_grant_and_claim",
        execution_id=EXECUTION,
        lease_ttl_ms=500,
        worker_id="worker",
        worker_instance_id="worker-1",
        attempt_timeout_ms=400,
    )
    return {name: claim[name] for name in ("execution_id", "lease_id", "lease_epoch", "attempt_id")}


# The lease holder against itself


def test_of_two_completions_under_one_fence_one_wins_and_the_other_can_tell(
    race: Race, leased: Fence
) -> None:
    completing(leased)(race.leader)
    waiting = race.follow(completing(leased))
    race.leader.commit()
    detail = refusal(waiting)
    assert detail["code"] == "execution_not_active"
    assert detail["terminal_outcome"] == "success"
    assert detail["lease_epoch"] == leased["lease_epoch"]
    assert detail["attempt_id"] == str(leased["attempt_id"])
    assert completions(race.watcher) == ["success"]
    assert lease_events(race.watcher) == ["acquired:issue_grant_and_claim", "released:completed"]


def test_a_completion_that_waited_wins_when_the_other_is_rolled_back(race: Race, leased: Fence) -> None:
    completing(leased)(race.leader)
    waiting = race.follow(completing(leased))
    race.leader.rollback()
    assert waiting.result()["outcome"] == "completed"
    assert completions(race.watcher) == ["success"]


def test_of_many_completions_at_once_one_wins(connect: Connect, race: Race, leased: Fence) -> None:
    race.lock_execution()
    waiting = []
    for _ in range(6):
        worker = connect()
        waiting.append(in_background(partial(completing(leased), worker)))
        wait_until_blocked(race.watcher, worker)
    race.leader.commit()
    answers = []
    for answer in waiting:
        try:
            answers.append(answer.result()["outcome"])
        except psycopg.Error as refused:
            answers.append(refused.diag.message_primary)
    assert sorted(answers) == ["completed"] + ["execution_not_active"] * 5
    assert completions(race.watcher) == ["success"]
    assert attempts(race.watcher) == ["ended_success"]


def test_a_failure_that_waited_for_a_completion_cannot_undo_it(race: Race, leased: Fence) -> None:
    completing(leased)(race.leader)
    waiting = race.follow(with_fence("ff_fail_execution", leased, failure_reason="late"))
    race.leader.commit()
    assert refusal(waiting)["terminal_outcome"] == "success"
    assert state(race.watcher) == "completed"


def test_a_completion_that_waited_for_a_delay_is_too_late(race: Race, leased: Fence) -> None:
    with_fence("ff_delay_execution", leased, delay_until_ms=9_000)(race.leader)
    waiting = race.follow(completing(leased))
    race.leader.commit()
    detail = refusal(waiting)
    assert (detail["lifecycle_phase"], detail["delay_until_ms"]) == ("runnable", 9_000)
    assert attempts(race.watcher) == ["suspended"]


# The lease holder against an operator


def test_a_completion_that_waited_for_a_cancellation_finds_an_ended_execution(
    race: Race, leased: Fence
) -> None:
    cancel(race.leader)
    waiting = race.follow(completing(leased))
    race.leader.commit()
    detail = refusal(waiting)
    assert (detail["code"], detail["terminal_outcome"]) == ("execution_not_active", "cancelled")
    assert completions(race.watcher) == ["cancelled"]
    assert attempts(race.watcher) == ["ended_cancelled"]


def test_a_cancellation_that_waited_for_a_completion_finds_an_ended_execution(
    race: Race, leased: Fence
) -> None:
    completing(leased)(race.leader)
    waiting = race.follow(cancel)
    race.leader.commit()
    assert refusal(waiting)["terminal_outcome"] == "success"
    assert completions(race.watcher) == ["success"]
    assert attempts(race.watcher) == ["ended_success"]


def test_of_two_cancellations_one_is_made_and_the_other_can_tell(race: Race, leased: Fence) -> None:
    cancel(race.leader)
    waiting = race.follow(cancel)
    race.leader.commit()
    detail = refusal(waiting)
    assert (detail["code"], detail["terminal_outcome"]) == ("execution_not_active", "cancelled")
    assert completions(race.watcher) == ["cancelled"]
    assert lease_events(race.watcher) == ["acquired:issue_grant_and_claim", "released:cancelled"]


# The lease holder against the clock


def test_a_completion_that_waited_for_an_expiry_finds_an_ended_execution(
    race: Race, leased: Fence, clock: Clock
) -> None:
    clock.freeze(1_400)
    assert expire(race.leader)["outcome"] == "expired"
    waiting = race.follow(completing(leased))
    race.leader.commit()
    assert refusal(waiting)["terminal_outcome"] == "expired"
    assert completions(race.watcher) == ["expired"]


def test_an_expiry_that_waited_for_a_completion_finds_an_ended_execution(
    race: Race, leased: Fence, clock: Clock
) -> None:
    clock.freeze(1_400)
    completing(leased)(race.leader)
    waiting = race.follow(expire)
    race.leader.commit()
    assert waiting.result()["outcome"] == "already_terminal"
    assert completions(race.watcher) == ["success"]


def test_an_expiry_is_judged_by_the_time_after_the_wait(race: Race, leased: Fence, clock: Clock) -> None:
    race.lock_execution()
    waiting = race.follow(expire)
    clock.freeze(1_400)
    race.leader.commit()
    assert waiting.result()["outcome"] == "expired"


def test_a_completion_that_waited_for_the_mark_of_its_expiry_is_too_late(
    race: Race, leased: Fence, clock: Clock
) -> None:
    clock.freeze(1_500)
    mark(race.leader)
    waiting = race.follow(completing(leased))
    race.leader.commit()
    assert refusal(waiting)["code"] == "lease_expired"
    assert attempts(race.watcher) == ["started"]


def test_a_mark_that_waited_for_a_completion_finds_nothing_to_mark(
    race: Race, leased: Fence, clock: Clock
) -> None:
    clock.freeze(1_499)
    completing(leased)(race.leader)
    clock.freeze(1_500)
    waiting = race.follow(mark)
    race.leader.commit()
    assert waiting.result() == {"outcome": "already_satisfied", "reason": "not_active"}
    assert lease_events(race.watcher) == ["acquired:issue_grant_and_claim", "released:completed"]


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("ff_renew_lease", {}),
        ("ff_complete_execution", {}),
        ("ff_fail_execution", {}),
        ("ff_delay_execution", {"delay_until_ms": 9_000}),
        ("ff_move_to_waiting_children", {}),
        ("ff_cancel_execution", {"reason": ""}),
    ],
)
def test_a_lease_is_judged_by_the_time_after_the_wait(
    race: Race, leased: Fence, clock: Clock, function: str, arguments: Row
) -> None:
    race.lock_execution()
    waiting = race.follow(with_fence(function, leased, **arguments))
    clock.freeze(1_500)
    race.leader.commit()
    assert refusal(waiting) == {
        "code": "lease_expired",
        "fn": function,
        "execution_id": EXECUTION,
        "lease_epoch": 1,
        "lease_expires_at_ms": 1_500,
        "now_ms": 1_500,
    }


# What the row lock stands for


def test_a_completion_closes_a_stream_whose_first_frame_it_waited_for(race: Race, leased: Fence) -> None:
    race.leader.execute("select from flowfabric.ff_exec_core for share")
    race.leader.execute(
        "insert into flowfabric.ff_stream_meta (partition_key, execution_id, attempt_index, created_at_ms)"
        " select e.partition_key, e.execution_id, 0, 1000 from flowfabric.ff_exec_core as e"
    )
    waiting = race.follow(completing(leased))
    race.leader.commit()
    waiting.result()
    assert texts(race.watcher, "select m.closed_reason from flowfabric.ff_stream_meta as m") == [
        "attempt_success"
    ]


def with_result(fence: Fence) -> Ask:
    return with_fence("ff_complete_execution", fence, result=b"output")


def with_result_in_a_batch(fence: Fence) -> Ask:
    arrays = {f"{name}s": [value] for name, value in fence.items()}
    return lambda connection: call(connection, "ff_complete_executions", **arrays, results=[b"output"])


def tag(connection: Connection) -> Row:
    return call(connection, "ff_set_execution_tags", execution_id=EXECUTION, tags=Jsonb({"app.run": "7"}))


@pytest.mark.parametrize("complete", [with_result, with_result_in_a_batch])
@pytest.mark.parametrize("tags_come_first", [True, False])
def test_tags_and_a_result_that_meet_leave_each_other_and_the_payload_alone(
    race: Race, leased: Fence, complete: Callable[[Fence], Ask], tags_come_first: bool
) -> None:
    first, second = (tag, complete(leased)) if tags_come_first else (complete(leased), tag)
    race.follower.execute("set lock_timeout = '1ms'")
    first(race.leader)
    assert second(race.follower)["outcome"] in {"ok", "completed"}
    race.leader.commit()
    context = call(race.watcher, "ff_read_execution_context", execution_id=EXECUTION)
    assert (context["input_payload"], context["tags"]) == (b"input", {"app.run": "7"})
    assert call(race.watcher, "ff_get_execution_result", execution_id=EXECUTION)["result"] == b"output"
    assert texts(race.watcher, "select f.check_name from flowfabric.ff_check_invariants() as f") == []


@pytest.fixture
def flow(db: Connection, leased: Fence) -> str:
    """A flow that the leased execution is not yet a member of."""
    db.execute(
        "insert into flowfabric.ff_flow_core (partition_key, flow_id, flow_kind, namespace,"
        " public_flow_state, created_at_ms, last_mutation_at_ms)"
        " values (86, %s, 'test', 'default', 'open', 1000, 1000)",
        [FLOW],
    )
    return FLOW


ENDINGS: dict[str, Callable[[Fence], Ask]] = {
    "complete": completing,
    "fail": partial(with_fence, "ff_fail_execution"),
    "wait for children": partial(with_fence, "ff_move_to_waiting_children"),
    "cancel": lambda _: cancel,
    "expire": lambda fence: (
        lambda connection: call(connection, "ff_expire_execution", execution_id=fence["execution_id"])
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_flow_of_a_member_is_locked_before_the_member(
    race: Race, leased: Fence, flow: str, ending: str
) -> None:
    race.watcher.execute("update flowfabric.ff_exec_core set flow_id = %s", [flow])
    race.leader.execute("select from flowfabric.ff_flow_core for no key update")
    waiting = race.follow(ENDINGS[ending](leased))
    # Were the member locked while its flow is waited for, this would deadlock with whoever holds the flow.
    race.leader.execute("select from flowfabric.ff_exec_core for no key update nowait")
    race.leader.commit()
    waiting.result()
    assert state(race.watcher) != "active"


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_execution_that_joins_a_busy_flow_meanwhile_is_left_alone(
    connect: Connect, race: Race, leased: Fence, flow: str, ending: str
) -> None:
    race.leader.execute("update flowfabric.ff_exec_core set flow_id = %s", [flow])
    waiting = race.follow(ENDINGS[ending](leased))
    busy = connect(autocommit=False)
    busy.execute("select from flowfabric.ff_flow_core for no key update")
    race.leader.commit()
    detail = refusal(waiting)
    assert (detail["code"], detail["flow_id"]) == ("flow_membership_changed", flow)
    assert state(race.watcher) == "active"


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_execution_that_joins_an_idle_flow_meanwhile_ends_as_its_member(
    race: Race, leased: Fence, flow: str, ending: str
) -> None:
    race.leader.execute("update flowfabric.ff_exec_core set flow_id = %s", [flow])
    waiting = race.follow(ENDINGS[ending](leased))
    race.leader.commit()
    waiting.result()
    assert state(race.watcher) != "active"
    events = "select v.flow_id::text from flowfabric.ff_completion_event as v"
    assert texts(race.watcher, events) == ([] if ending == "wait for children" else [flow])


# The application's own transaction


@pytest.fixture
def orders(db: Connection) -> str:
    """A table of the application."""
    db.execute("create table public.orders (id integer primary key, paid boolean not null)")
    db.execute("insert into public.orders values (1, false)")
    return "select o.paid::text from public.orders as o"


def test_a_completion_commits_together_with_the_applications_rows(
    connect: Connect, race: Race, leased: Fence, orders: str
) -> None:
    with connect(autocommit=False) as worker:
        worker.execute("update public.orders set paid = true")
        completing(leased)(worker)
        assert (texts(race.watcher, orders), state(race.watcher)) == (["false"], "active")
    assert (texts(race.watcher, orders), state(race.watcher)) == (["true"], "completed")


def test_a_rollback_takes_back_completion_and_rows_and_the_lease_is_still_good(
    connect: Connect, race: Race, leased: Fence, orders: str
) -> None:
    worker = connect(autocommit=False)
    worker.execute("update public.orders set paid = true")
    completing(leased)(worker)
    worker.rollback()
    assert (texts(race.watcher, orders), state(race.watcher)) == (["false"], "active")
    assert (completions(race.watcher), attempts(race.watcher)) == ([], ["started"])
    completing(leased)(worker)
    worker.commit()
    assert state(race.watcher) == "completed"


def test_a_transaction_goes_on_after_a_refusal_inside_a_savepoint(
    connect: Connect, race: Race, leased: Fence, orders: str
) -> None:
    stale = {**leased, "lease_epoch": 0}
    with connect(autocommit=False) as worker:
        worker.execute("update public.orders set paid = true")
        with pytest.raises(psycopg.Error) as refused, worker.transaction():
            completing(stale)(worker)
        assert refused.value.sqlstate == "ZS001"
        completing(leased)(worker)
    assert (texts(race.watcher, orders), state(race.watcher)) == (["true"], "completed")


# Those who wait for an end


def notified(connection: Connection) -> set[tuple[str, str]]:
    """Channel and key of what came in so far; a notification of our own marks the end."""
    connection.execute("listen the_end")
    connection.execute("notify the_end")
    received = set()
    for notification in connection.notifies():
        if notification.channel == "the_end":
            break
        received.add((notification.channel, notification.payload))
    return received


def test_nobody_is_notified_of_a_completion_unless_somebody_waits(
    connect: Connect, race: Race, leased: Fence
) -> None:
    listener = connect()
    listener.execute("listen ff_completion")
    completing(leased)(race.follower)
    assert notified(listener) == set()


def test_a_waiter_is_notified_of_a_completion_at_its_commit(
    connect: Connect, race: Race, leased: Fence
) -> None:
    listener = connect()
    for channel in ("ff_completion", "ff_lease_event"):
        listener.execute(f"listen {channel}")
    race.watcher.execute("select flowfabric.ff_wait_for_events('waiter', '{completion,lease}')")
    completing(leased)(race.leader)
    assert notified(listener) == set()
    race.leader.commit()
    assert notified(listener) == {("ff_completion", "*"), ("ff_lease_event", "*")}
