"""`flowfabric flows`: list and show."""

from __future__ import annotations

from uuid import UUID

import click

from flowfabric_client import rows
from flowfabric_client.commands import examples, print_json
from flowfabric_client.commands._engine import Engine, NotThereError, engine_command
from flowfabric_client.commands._options import flow_argument, page_options
from flowfabric_client.commands._output import (
    Column,
    as_dict,
    console,
    make_fields,
    make_fitting_table,
    number,
    print_table,
    state,
    text,
    when,
)
from flowfabric_client.commands.executions import LISTING

_MEMBERS_SHOWN = 100
_COUNTS = (
    "completed",
    "failed",
    "cancelled",
    "expired",
    "skipped",
    "active",
    "suspended",
    "waiting",
    "delayed",
    "rate_limited",
    "waiting_children",
)

FLOWS: tuple[Column[rows.FlowListing], ...] = (
    Column("flow", lambda row: row.flow_id),
    Column("status", lambda row: row.status, state),
    Column("created", lambda row: row.created_at_ms, when),
)
JOINS: tuple[Column[rows.EdgeGroupListing], ...] = (
    Column("execution", lambda row: row.execution_id),
    Column("join", lambda row: row.policy_kind if row.k is None else f"{row.policy_kind} {row.k}"),
    Column("state", lambda row: row.group_state, state),
    Column("of", lambda row: row.total_deps, number),
    Column("satisfied", lambda row: row.satisfied_count, number),
    Column("failed", lambda row: row.failed_count, number, drop=1),
    Column("skipped", lambda row: row.skipped_count, number, drop=3),
    Column("running", lambda row: row.running_count, number, drop=2),
)


@click.group()
def flows() -> None:
    """List flows, or look into one."""


@flows.command("list", epilog=examples("flowfabric flows list", "flowfabric flows list --limit 10 --json"))
@page_options
@engine_command
def list_(engine: Engine, limit: int, after: str | None) -> None:
    """List flows in the order of their ids, a page at a time."""
    try:
        cursor = UUID(after) if after else None
    except ValueError as error:
        raise click.UsageError(f"--after {after} is not the id of a flow.") from error
    found = engine.client.list_flows(cursor=cursor, limit=limit)
    engine.print_page(found, FLOWS, empty="There are no flows.", next_after=lambda row: str(row.flow_id))


@flows.command(
    epilog=examples("flowfabric flows show 6f1c9a52-...", "flowfabric flows show $FLOW --json | jq .summary")
)
@flow_argument
@engine_command
def show(engine: Engine, flow_id: UUID) -> None:
    """Show a flow: how its members fare now, its joins, and its first 100 members."""
    client = engine.client
    found = client.describe_flow(flow_id)
    if found is None:
        raise NotThereError(
            f"There is no flow {flow_id}: check the id; a flow is deleted some time after its members."
        )
    summary = client.read_flow_summary(flow_id, live=True)
    joins = client.list_flow_edge_groups(flow_id)
    members = client.list_executions(flow_id=flow_id, limit=_MEMBERS_SHOWN)
    if engine.as_json:
        print_json(
            {
                **as_dict(found),
                "summary": None if summary is None else as_dict(summary),
                "joins": [as_dict(join) for join in joins],
                "members": [as_dict(member) for member in members],
                "next_member": members[-1].next_after if members else None,
            }
        )
        return
    now_ms = client.now_ms()
    counts = {name: getattr(summary, f"members_{name}") for name in _COUNTS} if summary else {}
    out = console()
    print_table(
        make_fields(
            [
                ("flow", text(found.flow_id)),
                ("state", state(summary.public_flow_state if summary else found.public_flow_state)),
                ("kind", text(found.flow_kind)),
                ("namespace", text(found.namespace)),
                ("members", number(found.node_count)),
                ("edges", number(found.edge_count)),
                ("created", when(found.created_at_ms, now_ms)),
                ("ended", when(found.terminal_at_ms, now_ms)),
                ("cancelled", when(found.cancelled_at_ms, now_ms)),
                ("cancelled because", text(found.cancel_reason)),
                ("tags", text(found.tags)),
                *((f"  {name}", number(count)) for name, count in counts.items() if count),
            ]
        ),
        out,
    )
    for title, table in (
        ("Joins", make_fitting_table(joins, JOINS, now_ms, out) if joins else None),
        ("Members", make_fitting_table(members, LISTING, now_ms, out) if members else None),
    ):
        if table is not None:
            out.print(f"\n{title}", style="bold underline")
            print_table(table, out)
    if members and members[-1].has_more:
        out.print(f"There are more: flowfabric executions list --flow {flow_id}", style="bright_black")
