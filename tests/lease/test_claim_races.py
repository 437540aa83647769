"""Two sessions want the same execution: whoever locks its row first decides, and the other one is told."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from tests.conftest import Clock, Connect, RoleConnection
from tests.support.cluster import Connection
from tests.support.concurrency import Background, in_background, wait_until_blocked
from tests.support.engine import Race, Row, call

EXECUTION = "{fp:86}:00000000-0000-4000-8000-000000000001"
FLOW = "00000000-0000-4000-8000-00000000f10f"

Fence = dict[str, Any]


def core(connection: Connection) -> Row:
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(
            "select e.*, v.state as public_state"
            " from flowfabric.ff_exec_core as e cross join flowfabric.ff_v_execution as v"
        ).fetchone()
    assert row is not None
    return row


def lease_events(connection: Connection) -> list[str]:
    events = connection.execute("select v.event_type from flowfabric.ff_lease_event as v order by v.event_id")
    return [event_type for (event_type,) in events.fetchall()]


def count(connection: Connection, table: str) -> int:
    row = connection.execute(f"select count(*) from flowfabric.{table}").fetchone()
    assert row is not None
    return int(row[0])


def refusal(waiting: Background[Row]) -> str:
    """The code with which the engine refused the call."""
    with pytest.raises(psycopg.Error) as refused:
        waiting.result()
    code = refused.value.diag.message_primary
    assert code is not None
    return code


@pytest.fixture
def eligible(db: Connection, race: Race) -> None:
    """An execution that can be claimed."""
    call(db, "ff_create_execution", execution_kind="test", execution_id=EXECUTION)


@pytest.fixture
def granted(db: Connection, eligible: None) -> None:
    """One that is granted to the pool for 500 ms."""
    issue_claim_grant(db)


@pytest.fixture
def leased(db: Connection, eligible: None) -> Fence:
    """One that worker-1 holds until 1500 ms; the fence of its lease."""
    claim = call(
        db,
        "ff_issue_grant_and_claim",
        execution_id=EXECUTION,
        lease_ttl_ms=500,
        worker_id="worker",
        worker_instance_id="worker-1",
    )
    return {name: claim[name] for name in ("execution_id", "lease_id", "lease_epoch", "attempt_id")}


def issue_claim_grant(connection: Connection) -> Row:
    return call(
        connection,
        "ff_issue_claim_grant",
        execution_id=EXECUTION,
        worker_id="pool",
        worker_instance_id="pool-1",
        lane_id="default",
        grant_ttl_ms=500,
    )


def claim(connection: Connection) -> Row:
    return call(
        connection,
        "ff_claim_execution",
        execution_id=EXECUTION,
        worker_id="pool",
        worker_instance_id=f"pool-{connection.info.backend_pid}",
    )


def issue_reclaim_grant(connection: Connection) -> Row:
    return call(
        connection,
        "ff_issue_reclaim_grant",
        execution_id=EXECUTION,
        worker_id="pool",
        worker_instance_id="pool-1",
    )


def reclaim(connection: Connection) -> Row:
    return call(
        connection,
        "ff_reclaim_execution",
        execution_id=EXECUTION,
        worker_id="pool",
        worker_instance_id=f"pool-{connection.info.backend_pid}",
    )


def cancel(connection: Connection) -> Row:
    return call(
        connection, "ff_cancel_execution", execution_id=EXECUTION, reason="stop", source="operator_override"
    )


def revoke(connection: Connection) -> Row:
    return call(connection, "ff_revoke_lease", execution_id=EXECUTION)


def mark(connection: Connection) -> Row:
    return call(connection, "ff_mark_lease_expired_if_due", execution_id=EXECUTION)


def renewing(fence: Fence) -> Callable[[Connection], Row]:
    return lambda connection: call(connection, "ff_renew_lease", **fence)


def completing(fence: Fence) -> Callable[[Connection], Row]:
    return lambda connection: call(connection, "ff_complete_execution", **fence)


# Grants


def test_of_two_issuers_one_grants(race: Race, eligible: None) -> None:
    issue_claim_grant(race.leader)
    waiting = race.follow(issue_claim_grant)
    race.leader.commit()
    assert refusal(waiting) == "grant_already_exists"
    assert count(race.watcher, "ff_claim_grant") == 1


def test_an_issuer_that_waited_grants_when_the_other_gives_up(race: Race, eligible: None) -> None:
    issue_claim_grant(race.leader)
    waiting = race.follow(issue_claim_grant)
    race.leader.rollback()
    assert waiting.result()["outcome"] == "granted"


def test_of_two_reclaim_issuers_one_grants_and_the_expiry_is_marked_once(
    race: Race, leased: Fence, clock: Clock
) -> None:
    clock.freeze(1_500)
    issue_reclaim_grant(race.leader)
    waiting = race.follow(issue_reclaim_grant)
    race.leader.commit()
    assert refusal(waiting) == "grant_already_exists"
    assert lease_events(race.watcher) == ["acquired", "expired"]


def test_a_grant_is_judged_by_the_time_after_the_wait(race: Race, granted: None, clock: Clock) -> None:
    race.lock_execution()
    waiting = race.follow(claim)
    clock.freeze(1_501)
    race.leader.commit()
    assert refusal(waiting) == "claim_grant_expired"


def test_an_issuer_that_waited_until_a_grant_expired_grants(race: Race, granted: None, clock: Clock) -> None:
    race.lock_execution()
    waiting = race.follow(issue_claim_grant)
    clock.freeze(1_501)
    race.leader.commit()
    assert waiting.result()["expires_at_ms"] == 2_001


def test_a_sweep_waits_for_nobody(race: Race, granted: None, clock: Clock) -> None:
    clock.freeze(1_501)
    race.lock_execution()
    sweep = "select flowfabric.ff_sweep_expired_grants()"
    assert race.follower.execute(sweep).fetchone() == (0,)
    race.leader.commit()
    assert race.follower.execute(sweep).fetchone() == (1,)


def test_a_sweep_leaves_a_grant_whose_quota_is_busy_to_the_next_one(
    race: Race, granted: None, clock: Clock
) -> None:
    race.watcher.execute("update flowfabric.ff_exec_core set quota_policy_id = 'quota'")
    race.watcher.execute(
        "insert into flowfabric.ff_quota_admitted"
        " (quota_policy_id, partition_key, execution_id, admitted_at_ms, expires_at_ms, slot_held)"
        " select 'quota', e.partition_key, e.execution_id, 1000, 2000, true from flowfabric.ff_exec_core as e"
    )
    clock.freeze(1_501)
    race.leader.execute("select from flowfabric.ff_quota_admitted for update")
    sweep = "select flowfabric.ff_sweep_expired_grants()"
    assert race.follower.execute(sweep).fetchone() == (0,)
    assert count(race.watcher, "ff_claim_grant") == 1
    race.leader.commit()
    assert race.follower.execute(sweep).fetchone() == (1,)
    assert count(race.watcher, "ff_quota_admitted where slot_held") == 0


# Claims


def test_of_two_claimers_of_one_grant_one_wins(race: Race, granted: None) -> None:
    won = claim(race.leader)
    waiting = race.follow(claim)
    race.leader.commit()
    assert refusal(waiting) == "execution_not_leaseable"
    assert core(race.watcher)["current_lease_id"] == won["lease_id"]
    assert core(race.watcher)["current_lease_epoch"] == 1
    assert lease_events(race.watcher) == ["acquired"]


def test_a_claimer_that_waited_wins_when_the_other_gives_up(race: Race, granted: None) -> None:
    claim(race.leader)
    waiting = race.follow(claim)
    race.leader.rollback()
    won = waiting.result()
    assert (won["lease_epoch"], won["attempt_index"]) == (1, 0)
    assert core(race.watcher)["current_lease_id"] == won["lease_id"]


def test_of_many_claimers_at_once_one_wins(connect: Connect, race: Race, granted: None) -> None:
    claimers = [connect() for _ in range(6)]
    race.lock_execution()
    waiting = []
    for claimer in claimers:
        waiting.append(in_background(partial(claim, claimer)))
        wait_until_blocked(race.watcher, claimer)
    race.leader.commit()
    answers = []
    for answer in waiting:
        try:
            answers.append(answer.result()["outcome"])
        except psycopg.Error as refused:
            answers.append(refused.diag.message_primary)
    assert sorted(answers) == ["claimed"] + ["execution_not_leaseable"] * 5
    assert count(race.watcher, "_ff_all_attempts()") == 1


def test_a_claim_that_waited_for_a_cancellation_finds_an_ended_execution(race: Race, granted: None) -> None:
    cancel(race.leader)
    waiting = race.follow(claim)
    race.leader.commit()
    assert refusal(waiting) == "execution_not_leaseable"
    assert core(race.watcher)["public_state"] == "cancelled"
    assert count(race.watcher, "_ff_all_attempts()") == count(race.watcher, "ff_claim_grant") == 0


def test_a_cancellation_that_waited_for_a_claim_ends_the_new_attempt(race: Race, granted: None) -> None:
    claim(race.leader)
    waiting = race.follow(cancel)
    race.leader.commit()
    assert waiting.result()["cancelled_from"] == "active"
    assert race.watcher.execute("select attempt_state from flowfabric.ff_attempt").fetchall() == [
        ("ended_cancelled",)
    ]
    assert lease_events(race.watcher) == ["acquired", "released"]


def test_an_operators_claim_that_waited_for_a_grant_respects_it(race: Race, eligible: None) -> None:
    issue_claim_grant(race.leader)
    waiting = race.follow(
        lambda connection: call(
            connection, "ff_issue_grant_and_claim", execution_id=EXECUTION, lease_ttl_ms=500
        )
    )
    race.leader.commit()
    assert refusal(waiting) == "grant_already_exists"


# A lease and those who take it away


def test_a_renewal_that_waited_for_a_revocation_is_refused(race: Race, leased: Fence) -> None:
    revoke(race.leader)
    waiting = race.follow(renewing(leased))
    race.leader.commit()
    assert refusal(waiting) == "lease_revoked"


def test_a_revocation_that_waited_for_a_renewal_takes_the_renewed_lease(race: Race, leased: Fence) -> None:
    renewing(leased)(race.leader)
    waiting = race.follow(revoke)
    race.leader.commit()
    assert waiting.result()["outcome"] == "revoked"
    assert core(race.watcher)["ownership_state"] == "lease_revoked"


def test_a_mark_that_waited_for_a_renewal_finds_the_lease_alive(
    race: Race, leased: Fence, clock: Clock
) -> None:
    clock.freeze(1_499)
    renewing(leased)(race.leader)
    clock.freeze(1_500)
    waiting = race.follow(mark)
    race.leader.commit()
    assert waiting.result() == {"outcome": "already_satisfied", "reason": "not_yet_expired"}
    assert lease_events(race.watcher) == ["acquired"]


def test_a_renewal_that_waited_for_the_mark_is_too_late(race: Race, leased: Fence, clock: Clock) -> None:
    clock.freeze(1_500)
    mark(race.leader)
    waiting = race.follow(renewing(leased))
    race.leader.commit()
    assert refusal(waiting) == "lease_expired"


def test_of_two_marks_one_is_made(race: Race, leased: Fence, clock: Clock) -> None:
    clock.freeze(1_500)
    mark(race.leader)
    waiting = race.follow(mark)
    race.leader.commit()
    assert waiting.result() == {"outcome": "already_satisfied", "reason": "already_expired"}
    assert lease_events(race.watcher) == ["acquired", "expired"]


def test_a_mark_judges_by_the_time_after_the_wait(race: Race, leased: Fence, clock: Clock) -> None:
    race.lock_execution()
    waiting = race.follow(mark)
    clock.freeze(1_500)
    race.leader.commit()
    assert waiting.result()["outcome"] == "marked_expired"


# Reclaims


def test_of_two_reclaimers_with_one_grant_one_wins(race: Race, leased: Fence, clock: Clock) -> None:
    clock.freeze(1_500)
    issue_reclaim_grant(race.watcher)
    won = reclaim(race.leader)
    waiting = race.follow(reclaim)
    race.leader.commit()
    assert refusal(waiting) == "execution_not_reclaimable"
    now = core(race.watcher)
    assert (now["current_lease_id"], now["current_lease_epoch"]) == (won["lease_id"], 2)
    assert (now["lease_reclaim_count"], now["total_attempt_count"]) == (1, 2)


def test_a_completion_that_waited_for_a_reclaim_is_fenced_off(
    race: Race, leased: Fence, clock: Clock
) -> None:
    clock.freeze(1_500)
    issue_reclaim_grant(race.watcher)
    reclaim(race.leader)
    waiting = race.follow(completing(leased))
    race.leader.commit()
    assert refusal(waiting) == "stale_lease"
    assert core(race.watcher)["public_state"] == "active"


def test_a_reclaim_that_waited_for_a_completion_finds_an_ended_execution(
    race: Race, leased: Fence, clock: Clock
) -> None:
    clock.freeze(1_499)
    completing(leased)(race.leader)
    clock.freeze(1_500)
    waiting = race.follow(reclaim)
    race.leader.commit()
    assert refusal(waiting) == "execution_not_reclaimable"
    assert core(race.watcher)["public_state"] == "completed"


def test_a_reclaim_that_waited_for_a_renewal_finds_the_lease_alive(
    race: Race, leased: Fence, clock: Clock
) -> None:
    clock.freeze(1_499)
    renewing(leased)(race.leader)
    clock.freeze(1_500)
    waiting = race.follow(reclaim)
    race.leader.commit()
    assert refusal(waiting) == "execution_not_reclaimable"


@pytest.fixture
def member(db: Connection, leased: Fence) -> Fence:
    """The leased execution as a member of a flow."""
    db.execute(
        "insert into flowfabric.ff_flow_core (partition_key, flow_id, flow_kind, namespace,"
        " public_flow_state, created_at_ms, last_mutation_at_ms)"
        " values (86, %s, 'test', 'default', 'open', 1000, 1000)",
        [FLOW],
    )
    db.execute("update flowfabric.ff_exec_core set flow_id = %s", [FLOW])
    return leased


def test_a_reclaim_of_a_member_locks_the_flow_first(race: Race, member: Fence, clock: Clock) -> None:
    clock.freeze(1_500)
    issue_reclaim_grant(race.watcher)
    race.leader.execute("select from flowfabric.ff_flow_core for no key update")
    waiting = race.follow(reclaim)
    # Were the member locked while its flow is waited for, this would deadlock with whoever holds the flow.
    race.leader.execute("select from flowfabric.ff_exec_core for no key update nowait")
    race.leader.commit()
    assert waiting.result()["outcome"] == "reclaimed"


def test_a_reclaim_does_not_wait_for_a_flow_that_the_execution_joined_meanwhile(
    connect: Connect, race: Race, member: Fence, clock: Clock
) -> None:
    clock.freeze(1_500)
    issue_reclaim_grant(race.watcher)
    race.watcher.execute("update flowfabric.ff_exec_core set flow_id = null")
    race.leader.execute("update flowfabric.ff_exec_core set flow_id = %s", [FLOW])
    waiting = race.follow(reclaim)
    busy = connect(autocommit=False)
    busy.execute("select from flowfabric.ff_flow_core for no key update")
    race.leader.commit()
    assert refusal(waiting) == "flow_membership_changed"


def test_every_hundredth_loss_in_a_row_is_announced(race: Race, leased: Fence, clock: Clock) -> None:
    notices: list[str | None] = []
    race.follower.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    for reclaims, announced in ((98, []), (99, [f"execution {EXECUTION} has lost 100 leases in a row"])):
        clock.advance(300_500)  # The lease, and the longest back-off.
        race.watcher.execute("update flowfabric.ff_exec_core set lease_reclaim_count = %s", [reclaims])
        issue_reclaim_grant(race.watcher)
        call(
            race.follower,
            "ff_reclaim_execution",
            execution_id=EXECUTION,
            worker_id="pool",
            worker_instance_id="pool-1",
            lease_ttl_ms=500,
            max_reclaim_count=1000,
        )
        assert notices == announced


# Rights


def test_roles_pass_an_execution_on_with_nothing_but_their_rights_to_call(
    role_connection: RoleConnection, leased: Fence, clock: Clock
) -> None:
    operator = role_connection("flowfabric_operator")
    worker = role_connection("flowfabric_worker")
    assert revoke(operator)["outcome"] == "revoked"
    issue_reclaim_grant(operator)
    assert reclaim(worker)["handle_kind"] == "reclaimed"
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        revoke(worker)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        reclaim(operator)
