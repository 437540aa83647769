"""The books after a fault: whatever was given to the workers must be accounted for, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import groupby

import psycopg

from tests.chaos.work import BUDGET, QUOTA, QUOTA_SLOTS, SETTLED, Work, column, consume
from tests.support.cluster import Connection

#: What may follow each step in the life of an execution's leases.
_NEXT = {
    "": {"acquired"},
    "acquired": {"released", "expired", "reclaimed"},
    "reclaimed": {"released", "expired", "reclaimed"},
    "released": {"acquired"},
    "expired": {"reclaimed"},
}


def unfinished(db: Connection) -> int:
    """How many executions have not ended."""
    row = db.execute("select count(*) from flowfabric.ff_exec_core where lifecycle_phase <> 'terminal'")
    return int((row.fetchone() or (0,))[0])


def assert_all_accounted_for(dsn: str, work: Work) -> None:
    """Every execution ended once and left what it must leave once; limits balance, events agree."""
    with psycopg.connect(dsn, autocommit=True) as db:
        _assert_ended(db, work)
        _assert_effects(db, work)
        _assert_limits(db, work)
        _assert_events(db, work)
        assert column(db, "select to_jsonb(i) from flowfabric.ff_check_invariants() as i") == []


def _assert_ended(db: Connection, work: Work) -> None:
    states: dict[str, str] = dict(
        db.execute("select execution_id, state::text from flowfabric.ff_v_execution").fetchall()
    )
    assert states.keys() == work.kinds.keys()
    assert Counter(states.values()) == {"completed": len(work)}


def _assert_effects(db: Connection, work: Work) -> None:
    assert_each_once("effect", column(db, "select execution_id from effect"), work.with_effect)


def assert_each_once(what: str, found: Iterable[str], expected: Iterable[str]) -> None:
    """Nothing is missing, nothing is there twice, nothing else is there."""
    counts = Counter(found)
    wanted = set(expected)
    twice = {key: count for key, count in counts.items() if count > 1}
    assert not twice, f"{what}: more than once: {twice}"
    missing, extra = wanted - counts.keys(), counts.keys() - wanted
    assert not missing, f"{what}: missing: {missing}"
    assert not extra, f"{what}: of nobody: {extra}"


def _assert_limits(db: Connection, work: Work) -> None:
    usage = {
        dimension: (current, reserved)
        for dimension, current, reserved in db.execute(
            "select dimension, current_value, reserved_value from flowfabric.ff_get_budget_usage(%s)",
            [BUDGET],
        )
    }
    spends, reports = len(work.of_kind("spend")), len(work.of_kind("usage"))
    expected = {"tokens": (SETTLED * spends, 0), "calls": (reports, 0)}
    assert {name: usage.get(name, (0, 0)) for name in expected} == expected
    query = f"select active_concurrency from flowfabric.ff_get_quota_policy('{QUOTA}')"
    assert column(db, query) == [0]
    assert _most_at_once(db, work) <= QUOTA_SLOTS


def _most_at_once(db: Connection, work: Work) -> int:
    """How many of the limited executions were leased at the same time, by the history of their leases."""
    running: set[str] = set()
    most = 0
    steps = db.execute(
        """
        select w.id, e.event_type
        from flowfabric.ff_lease_event as e
        cross join lateral flowfabric.ff_format_execution_id(e.partition_key, e.execution_id) as w (id)
        where w.id = any(%s)
        order by e.event_id""",
        [list(work.limited)],
    )
    for execution_id, step in steps:
        # A lease that ran out keeps its slot until it is taken over or released.
        if step == "released":
            running.discard(execution_id)
        else:
            running.add(execution_id)
        most = max(most, len(running))
    return most


def _assert_events(db: Connection, work: Work) -> None:
    while consume(db):
        pass
    assert_each_once("completion event", column(db, "select execution_id from consumed"), work.kinds)
    assert column(db, "select distinct outcome from consumed") == ["success"]
    history = db.execute(
        """
        select flowfabric.ff_format_execution_id(e.partition_key, e.execution_id), e.event_type, e.lease_epoch
        from flowfabric.ff_lease_event as e
        order by e.partition_key, e.execution_id, e.event_id"""
    ).fetchall()
    seen = 0
    for execution_id, steps in groupby(history, key=lambda row: row[0]):
        seen += 1
        before, epoch = "", 0
        for _, step, step_epoch in steps:
            assert step in _NEXT[before], f"{execution_id}: {step} after {before or 'nothing'}"
            if step in ("acquired", "reclaimed"):
                assert step_epoch > epoch, f"{execution_id}: epoch {step_epoch} after {epoch}"
            before, epoch = step, step_epoch
        assert before == "released", f"{execution_id}: the last step is {before}"
    assert seen == len(work)
