"""`flowfabric executions`: list, show, and what an operator does to one that is stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args
from uuid import UUID

import click

from flowfabric_client import rows
from flowfabric_client.commands import examples, print_json
from flowfabric_client.commands._engine import Engine, NotThereError, engine_command
from flowfabric_client.commands._options import (
    duration_option,
    execution_argument,
    page_options,
    parse_pair,
    reason_option,
)
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
from flowfabric_client.commands._text import preview, readable

if TYPE_CHECKING:
    from rich.text import Text

LISTING: tuple[Column[rows.ExecutionListing], ...] = (
    Column("execution", lambda row: row.execution_id),
    Column("state", lambda row: row.public_state, state),
    Column("kind", lambda row: row.execution_kind, can_wrap=True),
    Column("lane", lambda row: row.lane_id, drop=2),
    Column("namespace", lambda row: row.namespace, drop=4),
    Column("priority", lambda row: row.priority, number, drop=3),
    Column("created", lambda row: row.created_at_ms, when, drop=1),
)
ATTEMPTS: tuple[Column[rows.AttemptListing], ...] = (
    Column("attempt", lambda row: row.attempt_index, number),
    Column("type", lambda row: row.attempt_type, drop=3),
    Column("state", lambda row: row.attempt_state, state),
    Column("worker", lambda row: row.worker_instance_id, drop=2),
    Column("started", lambda row: row.started_at_ms, when),
    Column("ended", lambda row: row.ended_at_ms, when),
    Column("frames", lambda row: row.frame_count, number, drop=4),
    Column(
        "reason", lambda row: row.failure_reason or row.reclaim_reason or row.replay_reason, can_wrap=True
    ),
)
WAITPOINTS: tuple[Column[rows.WaitpointListing], ...] = (
    Column("waitpoint", lambda row: row.waitpoint_id),
    Column("key", lambda row: row.waitpoint_key, can_wrap=True),
    Column("state", lambda row: row.state, state),
    Column("signals", lambda row: row.required_signal_names or ["any"], can_wrap=True, drop=1),
    Column("expires", lambda row: row.expires_at_ms, when),
)


@click.group()
def executions() -> None:
    """List executions, look into one, or act on it."""


@executions.command(
    "list",
    epilog=examples(
        "flowfabric executions list --state failed --lane mail",
        "flowfabric executions list --tag app.order=42 --json | jq -r '.items[].execution_id'",
    ),
)
@click.option(
    "--state", "public_state", type=click.Choice(get_args(rows.PublicState)), help="Only this state."
)
@click.option(
    "--phase", "lifecycle_phase", type=click.Choice(get_args(rows.LifecyclePhase)), help="Only this phase."
)
@click.option("--lane", "lane_id", help="Only this lane.")
@click.option("--namespace", help="Only this namespace.")
@click.option("--flow", "flow_id", type=click.UUID, help="Only members of this flow.")
@click.option("--tag", type=parse_pair, metavar="KEY=VALUE", help="Only with this tag.")
@page_options
@engine_command
def list_(
    engine: Engine,
    *,
    public_state: str | None,
    lifecycle_phase: str | None,
    lane_id: str | None,
    namespace: str | None,
    flow_id: UUID | None,
    tag: tuple[str, str] | None,
    limit: int,
    after: str | None,
) -> None:
    """List executions in the order of their ids, a page at a time.

    A filter that few executions pass makes the engine read many, in several calls: prefer the flow.
    """
    tag_key, tag_value = tag or (None, None)
    found: list[rows.ExecutionListing] = []
    following = after
    while len(found) < limit:
        page = engine.client.list_executions(
            public_state=public_state,
            lifecycle_phase=lifecycle_phase,
            lane_id=lane_id,
            namespace=namespace,
            flow_id=flow_id,
            tag_key=tag_key,
            tag_value=tag_value,
            limit=limit - len(found),
            after=following,
        )
        # A row without an id only says where the search continues.
        found += (row for row in page if row.execution_id is not None)
        following = page[-1].next_after if page else None
        if following is None:
            break
    engine.print_page(found, LISTING, empty="There are no such executions.", following=following)


@executions.command(epilog=examples("flowfabric executions show '{fp:86}:6f1c...'"))
@execution_argument
@engine_command
def show(engine: Engine, execution_id: str) -> None:
    """Show an execution with its payload, result, attempts and open waitpoints."""
    client = engine.client
    found = client.describe_execution(execution_id)
    if found is None:
        raise NotThereError(
            f"There is no execution {execution_id}: check the id; an execution is deleted some time after "
            "its end."
        )
    context = client.read_execution_context(execution_id)
    result = client.get_execution_result(execution_id) or rows.ExecutionResult(None, None)
    attempts = client.list_attempts(execution_id)
    waitpoints = client.list_pending_waitpoints(execution_id)
    if engine.as_json:
        print_json(
            {
                **as_dict(found),
                "payload": readable(context.input_payload),
                "payload_encoding": context.payload_encoding,
                "policy": context.policy,
                "result": None if result.result is None else readable(result.result),
                "result_encoding": result.result_encoding,
                "attempts": [as_dict(attempt) for attempt in attempts],
                "waitpoints": [as_dict(waitpoint) for waitpoint in waitpoints],
            }
        )
        return
    now_ms = client.now_ms()
    out = console()
    print_table(make_fields(_fields(found, context, result, now_ms)), out)
    for title, table in (
        ("Attempts", make_fitting_table(attempts, ATTEMPTS, now_ms, out) if attempts else None),
        ("Open waitpoints", make_fitting_table(waitpoints, WAITPOINTS, now_ms, out) if waitpoints else None),
    ):
        if table is not None:
            out.print(f"\n{title}", style="bold underline")
            print_table(table, out)


def _fields(
    found: rows.ExecutionSnapshot, context: rows.ExecutionContext, result: rows.ExecutionResult, now_ms: int
) -> list[tuple[str, Text]]:
    is_blocked = found.blocking_reason != "none"
    progress = None if found.progress_pct is None else f"{found.progress_pct}%"
    return [
        ("execution", text(found.execution_id)),
        ("state", state(found.public_state)),
        ("kind", text(found.execution_kind)),
        ("lane", text(found.lane_id)),
        ("namespace", text(found.namespace)),
        ("flow", text(found.flow_id)),
        ("priority", number(found.priority)),
        ("blocked", text(found.blocking_reason if is_blocked else None)),
        ("blocked by", text(found.blocking_detail)),
        ("capabilities", text(found.required_capabilities)),
        ("budgets", text(found.budget_ids)),
        ("quota", text(found.quota_policy_id)),
        ("created", when(found.created_at_ms, now_ms)),
        ("started", when(found.started_at_ms, now_ms)),
        ("delayed until", when(found.delay_until_ms, now_ms)),
        ("deadline", when(found.deadline_at_ms, now_ms)),
        ("ended", when(found.terminal_at_ms, now_ms)),
        ("retries", number(found.retry_count) if found.retry_count else text(None)),
        ("worker", text(found.worker_instance_id)),
        ("lease expires", when(found.lease_expires_at_ms, now_ms)),
        ("lease revoked", text(found.lease_revoke_reason)),
        ("progress", text(" ".join(filter(None, (progress, found.progress_message))))),
        ("failure", text(found.failure_reason)),
        ("cancelled because", text(found.cancellation_reason)),
        ("tags", text(context.tags)),
        ("policy", text(context.policy)),
        ("payload", text(preview(context.input_payload))),
        ("result", text(None if result.result is None else preview(result.result))),
    ]


@executions.command(epilog=examples("flowfabric executions resume '{fp:86}:6f1c...' --delay 5m"))
@execution_argument
@duration_option("--delay", "delay_ms", default="0s", help="Let it wait that long first.")
@engine_command
def resume(engine: Engine, execution_id: str, delay_ms: int) -> None:
    """Resume a suspended execution without the signals it waits for.

    Every token that was handed out for the suspension dies.
    """
    done = engine.client.resume_execution(execution_id, resume_delay_ms=delay_ms)
    engine.print_done(f"{execution_id} is resumed: {done.public_state}.", done)


@executions.command(epilog=examples("flowfabric executions unblock '{fp:86}:6f1c...'"))
@execution_argument
@engine_command
def unblock(engine: Engine, execution_id: str) -> None:
    """Put an execution that admission holds back on its queue again."""
    done = engine.client.unblock_execution(execution_id)
    engine.print_done(f"{execution_id} is {done.public_state}.", done)


@executions.command(epilog=examples("flowfabric executions revoke '{fp:86}:6f1c...' --reason 'worker hangs'"))
@execution_argument
@reason_option
@engine_command
def revoke(engine: Engine, execution_id: str, reason: str | None) -> None:
    """Take the lease away from the worker that holds an execution.

    The execution waits for another worker to take it over; whatever the first one still sends is refused.
    """
    done = engine.client.revoke_lease(execution_id, reason=reason or "operator")
    if done.outcome == "revoked":
        engine.print_done(f"The lease of {execution_id} is revoked.", done)
    else:
        engine.print_done(f"{execution_id} has no lease to revoke: {done.reason}.", done)
