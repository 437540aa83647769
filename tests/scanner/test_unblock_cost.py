"""What ff_scan_unblock asks, and how often: once per distinct cause, whatever the statistics say.

The server counts the calls of each function in a transaction, so no clock is needed.
"""

from __future__ import annotations

import pytest

from tests.conftest import Connect
from tests.support.cluster import Connection

#: Rows in the table when it was analysed; None: never.
STATISTICS = {"never analysed": None, "analysed when empty": 0, "analysed with a few": 5}

BLOCKED = 3_000
#: Distinct sets of budgets, quota policies, lanes and capability sets among them.
CAUSES = 10
LIMIT = 20

SETUP = f"""
select flowfabric.ff_create_budget('budget-' || n, 'tenant', n::text, '{{tokens}}', '{{10}}', '{{0}}'),
    flowfabric.ff_report_usage_and_check(
        'budget-' || n, '{{tokens}}', '{{10}}', p_source => 'operator_override'),
    flowfabric.ff_create_quota_policy('quota-' || n, 60, 0, 1),
    flowfabric.ff_register_lane('lane-' || n),
    flowfabric.ff_set_lane_state('lane-' || n, 'paused', 'test')
from generate_series(1, {CAUSES}) as n;
insert into flowfabric.ff_capability_set (capability_set_id, tokens, created_at_ms)
overriding system value
select 100 + n, array['c' || n], 0 from generate_series(1, {CAUSES}) as n
"""

ROWS = """
insert into flowfabric.ff_exec_core (
    partition_key, execution_id, lifecycle_phase, ownership_state, eligibility_state, blocking_reason,
    attempt_state, created_at_ms, last_transition_at_ms, last_mutation_at_ms, namespace, lane_id,
    execution_kind, budget_ids, quota_policy_id, capability_set_id, blocked_at_ms)
select
    86, gen_random_uuid(), 'runnable', 'unowned', b.eligibility::flowfabric.ff_eligibility_state,
    b.reason::flowfabric.ff_blocking_reason, 'pending_first_attempt', n, n, n, 'default',
    'lane-' || n %% {causes} + 1, 'test',
    case b.eligibility when 'blocked_by_budget' then array['budget-' || n %% {causes} + 1] end,
    case b.eligibility when 'blocked_by_quota' then 'quota-' || n %% {causes} + 1 end,
    case b.eligibility when 'blocked_by_route' then 101 + n %% {causes} else 1 end, n
from generate_series(1, %s) as n
cross join (values
    ('blocked_by_budget', 'waiting_for_budget'), ('blocked_by_quota', 'waiting_for_quota'),
    ('blocked_by_route', 'waiting_for_capable_worker'), ('blocked_by_lane_state', 'paused_by_policy')
) as b (eligibility, reason)
""".replace("{causes}", str(CAUSES))

#: What is asked about a budget, a quota, a route and a lane.
QUESTIONS = {"_ff_exhausted_budget", "_ff_measure_quota", "_ff_has_capable_worker", "_ff_is_lane_serving"}


def calls_of_scan(session: Connection) -> tuple[int, dict[str, int]]:
    """How many executions a scan unblocked, and how often it asked each question."""

    def asked() -> dict[str, int]:
        statement = "select funcname, calls from pg_stat_xact_user_functions where funcname = any (%s)"
        return dict.fromkeys(QUESTIONS, 0) | dict(session.execute(statement, [list(QUESTIONS)]).fetchall())

    # The counters of a transaction begin with what is not yet reported of the ones before.
    with session.transaction(force_rollback=True):
        session.execute("set local track_functions = 'all'")
        before = asked()
        row = session.execute("select processed from flowfabric.ff_scan_unblock(%s)", [LIMIT]).fetchone()
        assert row is not None
        after = asked()
    return row[0], {name: after[name] - before[name] for name in QUESTIONS}


@pytest.mark.parametrize("analysed_rows", STATISTICS.values(), ids=STATISTICS)
def test_a_cause_is_asked_about_once_however_many_it_blocks(
    connect: Connect, db: Connection, analysed_rows: int | None
) -> None:
    session = connect()
    db.execute(SETUP)
    if analysed_rows is not None:
        db.execute(ROWS, [analysed_rows])
        db.execute("analyze flowfabric.ff_exec_core")
    calls_of_scan(session)  # A plan for these statistics, which the session may keep.
    db.execute(ROWS, [BLOCKED])
    # Slots that are taken: every quota is full.
    db.execute(
        """
        insert into flowfabric.ff_quota_admitted (
            quota_policy_id, partition_key, execution_id, admitted_at_ms, expires_at_ms, slot_held)
        select q.quota_policy_id, 86, gen_random_uuid(), 0, 9000000000000, true
        from flowfabric.ff_quota_policy as q"""
    )
    processed, calls = calls_of_scan(session)
    assert processed == 0
    assert calls == dict.fromkeys(QUESTIONS, CAUSES)


@pytest.mark.parametrize("analysed_rows", STATISTICS.values(), ids=STATISTICS)
def test_what_comes_back_is_asked_about_once_more_and_nothing_else_is(
    connect: Connect, db: Connection, analysed_rows: int | None
) -> None:
    session = connect()
    db.execute(SETUP)
    if analysed_rows is not None:
        db.execute(ROWS, [analysed_rows])
        db.execute("analyze flowfabric.ff_exec_core")
    calls_of_scan(session)
    db.execute(ROWS, [BLOCKED])
    db.execute("select flowfabric.ff_reset_budget('budget-1'), flowfabric.ff_reset_budget('budget-2')")
    processed, calls = calls_of_scan(session)
    assert processed == LIMIT
    # Each of a batch again, under its lock.
    assert sum(calls.values()) <= len(QUESTIONS) * CAUSES + 2 * LIMIT
