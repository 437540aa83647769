"""`flowfabric workers`: list and show, and whether a process takes new work."""

from __future__ import annotations

from collections.abc import Iterator

import click

from flowfabric_client import rows
from flowfabric_client.client import Client
from flowfabric_client.commands import examples, print_json
from flowfabric_client.commands._engine import Engine, NotThereError, engine_command
from flowfabric_client.commands._options import namespace_option, page_options, reason_option
from flowfabric_client.commands._output import (
    Column,
    as_dict,
    console,
    duration,
    make_fields,
    make_fitting_table,
    number,
    print_table,
    state,
    text,
    when,
)


def worker_state(row: rows.WorkerListing) -> str:
    """A worker process in one word."""
    if not row.live:
        return "lapsed"
    return "draining" if row.draining else "live"


WORKERS: tuple[Column[rows.WorkerListing], ...] = (
    Column("instance", lambda row: row.worker_instance_id),
    Column("state", worker_state, state),
    Column("worker", lambda row: row.worker_id, drop=3),
    Column("namespace", lambda row: row.namespace, drop=2),
    Column("lanes", lambda row: row.lanes, can_wrap=True),
    Column("capabilities", lambda row: row.capabilities, can_wrap=True, drop=1),
    Column("heartbeat", lambda row: row.last_heartbeat_ms, when),
)
LEASES: tuple[Column[rows.WorkerLeaseListing], ...] = (
    Column("execution", lambda row: row.execution_id),
    Column("lane", lambda row: row.lane_id, drop=1),
    Column("attempt", lambda row: row.attempt_index, number, drop=2),
    Column("lease", lambda row: row.ownership_state),
    Column("expires", lambda row: row.lease_expires_at_ms, when),
)

instance_argument = click.argument("instance_id", metavar="INSTANCE")


@click.group()
def workers() -> None:
    """List worker processes, look into one, or drain it."""


@workers.command("list", epilog=examples("flowfabric workers list --all"))
@click.option("--namespace", help="Only this namespace.")
@click.option(
    "--all", "include_lapsed", is_flag=True, help="Show processes whose heartbeats have stopped too."
)
@page_options
@engine_command
def list_(
    engine: Engine, *, namespace: str | None, include_lapsed: bool, limit: int, after: str | None
) -> None:
    """List the worker processes that are known."""
    after_namespace, _, after_instance = (after or "").partition(" ")
    if after and not after_instance:
        raise click.UsageError(
            "--after takes a namespace, a space and an instance: `next` of the page before."
        )
    found = engine.client.list_workers(
        namespace=namespace,
        include_lapsed=include_lapsed,
        limit=limit,
        after_namespace=after_namespace or None,
        after_worker_instance_id=after_instance or None,
    )
    engine.print_page(
        found,
        WORKERS,
        empty="No worker process is known.",
        # Neither may hold a space.
        next_after=lambda row: f"{row.namespace} {row.worker_instance_id}",
    )


@workers.command(epilog=examples("flowfabric workers show host-1:4711"))
@instance_argument
@namespace_option
@engine_command
def show(engine: Engine, instance_id: str, namespace: str) -> None:
    """Show a worker process and the leases it holds."""
    client = engine.client
    worker = next(
        (row for row in _all_workers(client, namespace) if row.worker_instance_id == instance_id), None
    )
    if worker is None:
        raise _not_registered(instance_id, namespace)
    leases = client.list_worker_leases(instance_id)
    if engine.as_json:
        print_json({**as_dict(worker), "leases": [as_dict(lease) for lease in leases]})
        return
    now_ms = client.now_ms()
    out = console()
    print_table(
        make_fields(
            [
                ("instance", text(worker.worker_instance_id)),
                ("state", state(worker_state(worker))),
                ("worker", text(worker.worker_id)),
                ("namespace", text(worker.namespace)),
                ("lanes", text(worker.lanes)),
                ("capabilities", text(worker.capabilities)),
                ("registered", when(worker.registered_at_ms, now_ms)),
                ("heartbeat", when(worker.last_heartbeat_ms, now_ms)),
                ("known for", duration(worker.liveness_ttl_ms)),
                ("draining because", text(worker.drain_reason)),
            ]
        ),
        out,
    )
    if leases:
        out.print("\nLeases", style="bold underline")
        print_table(make_fitting_table(leases, LEASES, now_ms, out), out)


def _all_workers(client: Client, namespace: str) -> Iterator[rows.WorkerListing]:
    after: rows.WorkerListing | None = None
    while page := client.list_workers(
        namespace=namespace,
        include_lapsed=True,
        after_namespace=after.namespace if after else None,
        after_worker_instance_id=after.worker_instance_id if after else None,
    ):
        yield from page
        if not page[-1].has_more:
            return
        after = page[-1]


def _not_registered(instance_id: str, namespace: str) -> NotThereError:
    return NotThereError(
        f"No worker process {instance_id} is known in namespace {namespace}: "
        "`flowfabric workers list --all` shows those there are."
    )


@workers.command(epilog=examples("flowfabric workers drain host-1:4711 --reason deploy"))
@instance_argument
@namespace_option
@reason_option
@engine_command
def drain(engine: Engine, instance_id: str, namespace: str, reason: str | None) -> None:
    """Ask a worker process to take no new work; it learns of it with its next heartbeat."""
    _set_draining(engine, instance_id, namespace, draining=True, reason=reason)


@workers.command(epilog=examples("flowfabric workers resume host-1:4711"))
@instance_argument
@namespace_option
@engine_command
def resume(engine: Engine, instance_id: str, namespace: str) -> None:
    """Let a worker process take work again."""
    _set_draining(engine, instance_id, namespace, draining=False, reason=None)


def _set_draining(
    engine: Engine, instance_id: str, namespace: str, *, draining: bool, reason: str | None
) -> None:
    done = engine.client.drain_worker(instance_id, draining=draining, reason=reason, namespace=namespace)
    if done.outcome == "not_registered":
        raise _not_registered(instance_id, namespace)
    verb = "was already" if done.outcome == "unchanged" else "is"
    engine.print_done(f"{instance_id} {verb} {'draining' if draining else 'taking work'}.", done)


@workers.command(epilog=examples("flowfabric workers forget host-1:4711 --reason 'host is gone'"))
@instance_argument
@namespace_option
@reason_option
@engine_command
def forget(engine: Engine, instance_id: str, namespace: str, reason: str | None) -> None:
    """Take a dead worker process out of the registry; its leases stay until they expire or are revoked."""
    done = engine.client.mark_worker_dead(instance_id, reason=reason, namespace=namespace)
    if done.outcome == "not_registered":
        raise _not_registered(instance_id, namespace)
    engine.print_done(f"{instance_id} is forgotten.", done)
