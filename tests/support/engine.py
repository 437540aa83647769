"""The engine as a race test sees it: its functions by name, and two sessions that want the same row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from psycopg.rows import dict_row

from tests.support.cluster import Connection
from tests.support.concurrency import Background, in_background, wait_until_blocked

Row = dict[str, Any]
Ask = Callable[[Connection], Row]


def call(connection: Connection, function: str, **arguments: Any) -> Row:
    """Call a function of the engine by the names of its parameters and return its row."""
    named = ", ".join(f"p_{name} => %({name})s" for name in arguments)
    with connection.cursor(row_factory=dict_row) as cursor:
        row = cursor.execute(f"select r.* from flowfabric.{function}({named}) as r", arguments).fetchone()
    assert row is not None
    return row


@dataclass
class Race:
    """Two sessions and somebody who watches them; the leader's transaction stays open until it is ended."""

    leader: Connection
    follower: Connection
    watcher: Connection

    def follow(self, ask: Ask) -> Background[Row]:
        """Let the follower ask, and return once it waits for the leader."""
        waiting = in_background(lambda: ask(self.follower))
        wait_until_blocked(self.watcher, self.follower, by=self.leader)
        return waiting

    def lock_execution(self) -> None:
        """Let the leader hold the execution without changing it."""
        self.leader.execute("select from flowfabric.ff_exec_core for no key update")
