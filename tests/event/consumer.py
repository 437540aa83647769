"""A program that consumes completions for ever: its effects and its cursor are one transaction.

It is started with the connection string of a database that has the tables `effect` and `progress`, and killed
by the test that started it. The pause before each commit is where a kill does the most harm.
"""

from __future__ import annotations

import sys
import time

import psycopg

from tests.event.support import read_events

BATCH = 5
PAUSE_S = 0.01


def main() -> None:
    with psycopg.connect(sys.argv[1]) as connection:
        while True:
            row = connection.execute("select cursor from progress for update").fetchone()
            assert row is not None
            events, position = read_events(connection, "completion", row[0], limit=BATCH)
            for event in events:
                connection.execute(
                    "insert into effect (event_id, execution_id) values (%s, %s)",
                    [event["event_id"], event["execution_id"]],
                )
            connection.execute("update progress set cursor = %s", [position["cursor"]])
            connection.execute(
                "select flowfabric.ff_commit_event_cursor('test', 'completion', %s)", [position["cursor"]]
            )
            time.sleep(PAUSE_S)
            connection.commit()


if __name__ == "__main__":
    main()
