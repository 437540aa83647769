"""Times as tests write them, and the next time at which the engine has something to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

#: A point in time: with a time zone, or in milliseconds since 1970.
Instant = datetime | int
#: A length of time; a number is in milliseconds.
Duration = timedelta | int

_EPOCH = datetime.fromtimestamp(0, UTC)
_MILLISECOND = timedelta(milliseconds=1)

# Only what happens by itself and to somebody: the reset of a budget counts while something waits for it.
NEXT_DUE_SQL = """
    select min(due.at_ms)
    from (
        select e.delay_until_ms from flowfabric.ff_exec_core as e
        where e.eligibility_state = 'not_eligible_until_time'
        union all
        select e.lease_expires_at_ms from flowfabric.ff_exec_core as e where e.ownership_state = 'leased'
        union all
        select least(e.attempt_timeout_at_ms, e.deadline_at_ms) from flowfabric.ff_exec_core as e
        where e.terminal_at_ms is null
        union all
        select s.timeout_at_ms from flowfabric.ff_suspension_current as s where s.closed_at_ms is null
        union all
        select w.admitted_at_ms + q.requests_per_window_seconds * 1000
        from flowfabric.ff_exec_core as e
        join flowfabric.ff_quota_policy as q using (quota_policy_id)
        join flowfabric.ff_quota_window as w using (quota_policy_id)
        where e.eligibility_state = 'blocked_by_quota'
        union all
        select b.next_reset_at_ms
        from flowfabric.ff_exec_core as e
        join flowfabric.ff_budget_policy as b on b.budget_id = any (e.budget_ids)
        where e.eligibility_state = 'blocked_by_budget'
        union all
        select b.grace_until_ms from flowfabric.ff_cancel_backlog as b
    ) as due (at_ms)
    where due.at_ms > flowfabric.ff_now_ms()"""


def instant_ms(when: Instant) -> int:
    """Milliseconds since 1970.

    Raises:
        ValueError: a datetime without a time zone, which would mean another instant on another machine.
    """
    if isinstance(when, int):
        return when
    if when.tzinfo is None:
        raise ValueError(f"{when!r} has no time zone: give it one, such as datetime(..., tzinfo=UTC).")
    return (when - _EPOCH) // _MILLISECOND


def duration_ms(length: Duration) -> int:
    """Milliseconds."""
    return length if isinstance(length, int) else length // _MILLISECOND


def as_datetime(ms: int) -> datetime:
    """The instant in UTC."""
    return _EPOCH + ms * _MILLISECOND
