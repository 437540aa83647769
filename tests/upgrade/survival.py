"""Everything that an installation holds: its rows, and what its readers say."""

from __future__ import annotations

import json
from typing import Any

from psycopg import sql

from tests.event.support import START
from tests.install.catalogue import Catalogue, read_catalogue
from tests.support.cluster import Connection
from tests.upgrade.world import BUDGET, QUOTA, World

Facts = dict[str, list[dict[str, Any]]]

YOYO_TABLES = {"_yoyo_log", "_yoyo_migration", "_yoyo_version", "yoyo_lock"}
#: What an installer writes, and nobody else.
_INSTALLED = {
    "ff_error_code",
    "ff_partition_config",
    "_yoyo_log",
    "_yoyo_migration",
    "_yoyo_version",
    "yoyo_lock",
}

_EVENT_STREAMS = ("completion", "lease", "signal", "operator", "worker")


#: Columns that come and go between releases and hold nothing of a user's: what is derived from other columns
#: or from settings, and where an attempt is stored.
_NO_DATA = {
    "ff_exec_core": {"public_state", "attempt_is_deferred"},
    "ff_lane_floor": {"due_at_ms", "namespace", "side", "settled_from_xid"},
    "ff_lane_registry": {"home_partition", "waiters_until_ms"},
    "ff_waiter": {"at_once"},
}


def stored_rows(db: Connection) -> Facts:
    """All rows of all tables that hold data of users."""
    tables = db.execute(
        "select c.relname from pg_class as c"
        " where c.relnamespace = 'flowfabric'::regnamespace and c.relkind in ('r', 'p')"
    ).fetchall()
    return {
        table: [
            {
                column: value
                for column, value in _without_takeover(row).items()
                if column not in _NO_DATA.get(table, ())
            }
            for (row,) in db.execute(
                sql.SQL("select to_jsonb(t) from {} as t").format(sql.Identifier("flowfabric", table))
            )
        ]
        for (table,) in tables
        if table not in _INSTALLED
    }


def _without_takeover(row: dict[str, Any]) -> dict[str, Any]:
    """A row without the time from which a lost lease may be taken over, which follows from the lease."""
    return row | {"delay_until_ms": None} if row.get("ownership_state", "").startswith("lease_") else row


def readings(db: Connection, world: World) -> Facts:
    """What the reading functions answer about everything in the world."""
    executions = [*world.ids.values(), *(i for flow in world.flows.values() for i in flow.ids.values())]
    questions: list[tuple[str, dict[str, Any]]] = [
        ("ff_list_executions", {"limit": 1000}),
        ("ff_list_flows", {}),
        ("ff_list_lanes", {}),
        ("ff_list_workers", {}),
        ("ff_list_settings", {}),
        ("ff_list_waitpoint_hmac_kids", {}),
        ("ff_queue_stats", {}),
        ("ff_get_quota_policy", {"quota_policy_id": QUOTA}),
        ("ff_get_budget_status", {"budget_id": BUDGET}),
        ("ff_get_budget_usage", {"budget_id": BUDGET}),
        *(
            (function, {"execution_id": execution})
            for execution in executions
            for function in (
                "ff_describe_execution",
                "ff_get_execution_result",
                "ff_list_attempts",
                "ff_list_lease_history",
                "ff_list_pending_waitpoints",
                "ff_read_execution_context",
                "ff_why",
            )
        ),
        *(("ff_read_events", {"stream": s, "cursor": START, "limit": 1000}) for s in _EVENT_STREAMS),
        *(
            (function, {"execution_id": world.ids["active"], "attempt_index": 0})
            for function in ("ff_read_attempt_stream", "ff_read_summary", "ff_stream_status")
        ),
        *(
            (function, {"flow_id": flow.flow_id})
            for flow in world.flows.values()
            for function in ("ff_describe_flow", "ff_list_flow_edge_groups", "ff_read_flow_summary")
        ),
        *(
            (
                "ff_read_waitpoint_token",
                {"execution_id": point.execution_id, "waitpoint_id": point.waitpoint_id},
            )
            for point in world.waitpoints.values()
        ),
    ]
    return {f"{name} {arguments}": _answer(db, name, arguments) for name, arguments in questions}


def _answer(db: Connection, function: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    named = ", ".join(f"p_{name} => %({name})s" for name in arguments)
    rows = db.execute(f"select to_jsonb(r) from flowfabric.{function}({named}) as r", arguments)
    if function == "ff_read_events":
        # The last row is a position: where the reader stands, which moves by itself.
        return [row for (row,) in rows if row["event_id"]]
    if function == "ff_list_settings":
        # A default may change with a release, what somebody has set may not.
        return [{"name": row["name"], "set": None if row["is_default"] else row["value"]} for (row,) in rows]
    if function == "ff_why":
        # Sentences may change with a release, and a detail may say more.
        return [{**row, "summary": None, "what_to_do": None, "detail": None} for (row,) in rows]
    # The advice is a text of the release, not of the user.
    return [{k: v for k, v in _without_takeover(row).items() if k != "what_to_do"} for (row,) in rows]


def schema_of(dsn: str) -> Catalogue:
    """All objects of the schema with their definitions, without any rows."""
    return {name: rows for name, rows in read_catalogue(dsn).items() if not name.startswith("rows of ")}


def lost(before: Facts, after: Facts) -> Facts:
    """What was there before and is not there after, in the columns of before."""
    missing: Facts = {}
    for name, rows in before.items():
        columns = list(rows[0]) if rows else []
        now = {_text({column: row.get(column) for column in columns}) for row in after.get(name, [])}
        gone = [row for row in rows if _text(row) not in now]
        if gone:
            missing[name] = gone
    return missing


def _text(row: dict[str, Any]) -> str:
    return json.dumps(row, sort_keys=True)
