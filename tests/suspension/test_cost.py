"""Reading how the pauses of one execution ended costs the same however many others the partition has."""

from __future__ import annotations

from tests.support.cluster import Connection
from tests.suspension.support import (
    calls,
    claim,
    deliver,
    execution_id,
    install_key,
    lease,
    single,
    suspend,
    value,
)

OTHERS = 500


def test_ended_suspensions_are_read_without_those_of_other_executions(db: Connection) -> None:
    install_key(db)
    # Planned on empty tables, as in a session that has run since the installation.
    fence = lease(db)
    for _ in range(7):
        calls(db, "ff_list_ended_suspensions", execution_id=execution_id())
    for _ in range(3):
        (waitpoint,) = suspend(db, fence, single())
        deliver(db, waitpoint)
        fence = claim(db)
    db.execute(
        "insert into flowfabric.ff_waitpoint_pending (partition_key, waitpoint_id, execution_id,"
        " attempt_index, waitpoint_key, state, suspension_id, ordinal, token_kid, token_fingerprint,"
        " created_at_ms, satisfied_at_ms, closed_at_ms, close_reason)"
        " select w.partition_key, gen_random_uuid(), gen_random_uuid(), 0, w.waitpoint_key, 'closed',"
        " gen_random_uuid(), 0, w.token_kid, w.token_fingerprint, 1, 1, 1, 'resumed'"
        " from (select * from flowfabric.ff_waitpoint_pending limit 1) as w, generate_series(1, %s)",
        [OTHERS],
    )
    with db.transaction():
        before = rows_read(db)
        ended = calls(db, "ff_list_ended_suspensions", execution_id=execution_id())
        after = rows_read(db)
    assert [row["ended_by"] for row in ended] == ["signal"] * 3
    assert after - before < OTHERS // 10


def rows_read(connection: Connection) -> int:
    """Waitpoints read in this transaction."""
    read: int = value(
        connection,
        "select seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_xact_user_tables"
        " where schemaname = 'flowfabric' and relname = 'ff_waitpoint_pending'",
    )
    return read
