"""`flowfabric cancel`: end an execution or a flow by decision of an operator."""

from __future__ import annotations

from uuid import UUID

import click

from flowfabric_client import errors
from flowfabric_client.commands import examples
from flowfabric_client.commands._engine import Engine, engine_command
from flowfabric_client.commands._options import duration_option


@click.command(
    epilog=examples(
        "flowfabric cancel '{fp:86}:6f1c...' --reason 'ordered twice'",
        "flowfabric cancel 6f1c9a52-... --members pending",
    )
)
@click.argument("target", metavar="EXECUTION_ID|FLOW_ID")
@click.option("--reason", default="cancelled from the command line", show_default=True, help="Why; kept.")
@click.option(
    "--members",
    type=click.Choice(["all", "pending", "none"]),
    default="all",
    show_default=True,
    help="Of a flow: whom to cancel with it; `pending` leaves running members alone.",
)
@duration_option("--grace", "grace_ms", default="30s", help="Time for running members.")
@engine_command
def cancel(engine: Engine, *, target: str, reason: str, members: str, grace_ms: int) -> None:
    """Cancel an execution, or a flow with its members.

    An execution is named by its id `{fp:N}:uuid`, a flow by a bare uuid; a bare uuid of no flow names an
    execution.
    """
    try:
        flow_id = UUID(target)
    except ValueError:
        _cancel_execution(engine, target, reason)
        return
    policy = {"all": "cancel_all", "pending": "cancel_pending", "none": "flow_only"}[members]
    try:
        done = engine.client.cancel_flow(flow_id, reason, policy, grace_ms=grace_ms)
    except errors.FlowNotFoundError:
        _cancel_execution(engine, engine.wire_id(target), reason)
        return
    engine.print_done(
        f"Flow {flow_id} is cancelled: {done.cancelled_count} of {done.member_count} members now, "
        f"{done.pending_count} later.",
        done,
    )


def _cancel_execution(engine: Engine, execution_id: str, reason: str) -> None:
    cancelled = engine.client.cancel_execution(execution_id, reason, source="operator_override")
    engine.print_done(f"{execution_id} is cancelled; it was {cancelled.cancelled_from}.", cancelled)
