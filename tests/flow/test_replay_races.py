"""Two sessions replay, end or remove the same execution: one of them wins, and nothing is counted twice."""

from __future__ import annotations

import psycopg
import pytest

from tests.conftest import Connect
from tests.support.cluster import Connection
from tests.support.concurrency import in_background, wait_until_blocked

EXECUTION = "{fp:86}:00000000-0000-4000-8000-000000000001"
FLOW = "00000000-0000-4000-8000-00000000f10e"

REPLAY = f"select flowfabric.ff_replay_execution('{EXECUTION}')"


@pytest.fixture
def ended(db: Connection) -> Connection:
    """An installation with one execution, which was cancelled."""
    db.execute(f"select flowfabric.ff_create_execution('test', p_execution_id => '{EXECUTION}')")
    db.execute(f"select flowfabric.ff_cancel_execution('{EXECUTION}', 'test', 'operator_override')")
    return db


def replay_count(connection: Connection) -> int:
    row = connection.execute("select replay_count from flowfabric.ff_exec_core").fetchone()
    assert row is not None
    return int(row[0])


def test_of_two_replays_one_wins(ended: Connection, connect: Connect) -> None:
    first, second = connect(autocommit=False), connect()
    first.execute(REPLAY)
    waiting = in_background(lambda: second.execute(REPLAY))
    wait_until_blocked(ended, second, by=first)
    first.commit()
    with pytest.raises(psycopg.Error) as refused:
        waiting.result()
    assert refused.value.diag.message_primary == "execution_not_terminal"
    assert replay_count(ended) == 1


def test_a_replay_that_is_rolled_back_leaves_the_other_one(ended: Connection, connect: Connect) -> None:
    first, second = connect(autocommit=False), connect()
    first.execute(REPLAY)
    waiting = in_background(lambda: second.execute(REPLAY))
    wait_until_blocked(ended, second, by=first)
    first.rollback()
    waiting.result()
    assert replay_count(ended) == 1


def test_a_member_is_replayed_under_the_lock_of_its_flow(ended: Connection, connect: Connect) -> None:
    ended.execute(
        """
        insert into flowfabric.ff_flow_core (
            partition_key, flow_id, flow_kind, namespace, public_flow_state, node_count, created_at_ms,
            last_mutation_at_ms)
        values (86, %s, 'test', 'default', 'open', 1, 0, 0)""",
        [FLOW],
    )
    ended.execute("update flowfabric.ff_exec_core set flow_id = %s", [FLOW])
    other, operator = connect(autocommit=False), connect()
    other.execute("select from flowfabric.ff_flow_core for no key update")
    waiting = in_background(lambda: operator.execute(REPLAY))
    wait_until_blocked(ended, operator, by=other)
    # Whoever holds the flow may change its members: the replay has not locked its own yet.
    other.execute("select from flowfabric.ff_exec_core for no key update nowait")
    other.rollback()
    waiting.result()
    assert replay_count(ended) == 1
