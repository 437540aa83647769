"""`flowfabric demo`: a private Postgres, and the engine at work in it."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import click
from rich.console import Console
from rich.progress import track

from flowfabric_client import Client, Handle, errors
from flowfabric_client.commands import fail, json_option, print_json
from flowfabric_client.dev import DevServerError, start_server
from flowfabric_client.install import InstallError, migrate

LEASE_TTL_MS = 300
EXECUTIONS = 20
Worker = Literal["ada", "grace"]


@dataclass
class Summary:
    """What the demo did, for the last lines and for scripts."""

    completed: int = 0
    retried: int = 0
    taken_over: int = 0
    refused: list[str] = field(default_factory=list)
    seconds: float = 0.0


@click.command()
@json_option
def demo(as_json: bool) -> None:
    """Start a private Postgres, install the engine, run some work, and remove everything.

    One of two workers stalls in the middle of its work: the other one takes over, and the database refuses
    the late answer of the first.
    """
    console = Console(quiet=as_json, highlight=False)
    summary = Summary()
    started = time.monotonic()
    try:
        console.print("[bold]1[/]  Starting a private Postgres ...", end=" ")
        # A directory of its own, so that the demo installs nothing in a server that the environment names.
        home = Path(tempfile.gettempdir()) / f"flowfabric-demo-{os.getpid()}"
        with start_server(data_dir=home, keep=False) as server:
            console.print(f"PostgreSQL {server.version}, {server.provider}")
            console.print("[bold]2[/]  Installing FlowFabric ...", end=" ")
            report = migrate(server.dsn())
            console.print(f"version {report.version}: {report.files_loaded} function files")
            with Client(server.dsn()) as client:
                _run(client, console, summary)
    except (DevServerError, InstallError, errors.FlowFabricError) as exc:
        fail(str(exc), as_json=as_json)
    summary.seconds = round(time.monotonic() - started, 1)
    if as_json:
        print_json(vars(summary))
        return
    console.print(
        f"\n[green]Done in {summary.seconds} s[/]: {summary.completed} executions completed, "
        f"{summary.retried} after a retry, {summary.taken_over} after a takeover; "
        f"{len(summary.refused)} late answer refused ({', '.join(summary.refused)}).\n"
        "The server is stopped and its files are removed. What next: README.md, docs/architecture.md."
    )


def _run(client: Client, console: Console, summary: Summary) -> None:
    console.print(f"[bold]3[/]  Creating {EXECUTIONS} executions, the third of which fails once")
    created = client.create_executions(
        ["greet"] * EXECUTIONS,
        payloads=[f"hello {number}".encode() for number in range(1, EXECUTIONS + 1)],
        policies=[{"retry_policy": {"max_retries": 1, "backoff": {"type": "fixed", "delay_ms": 50}}}]
        * EXECUTIONS,
    )
    ids = [item.execution_id for item in created if item.execution_id is not None]

    console.print("[bold]4[/]  Worker [cyan]ada[/] claims the first one and stalls; the lease runs out")
    stalled = _claim(client, "ada", ids[0])
    expired = client.describe_execution(stalled.execution_id)
    while expired is not None and not expired.lease_is_expired:
        time.sleep(0.05)
        expired = client.describe_execution(stalled.execution_id)

    console.print("[bold]5[/]  Worker [magenta]grace[/] takes it over; attempt 2, lease epoch 2")
    client.issue_reclaim_grant(stalled.execution_id, "grace", "grace-1")
    taken = Handle.of(
        client.reclaim_execution(stalled.execution_id, "grace", "grace-1", lease_ttl_ms=LEASE_TTL_MS)
    )
    summary.taken_over += 1

    console.print("[bold]6[/]  [cyan]ada[/] wakes up and tries to complete it: ", end="")
    try:
        client.complete_execution(**stalled.arguments(), result=b"too late")
    except errors.LeaseLostError as refused:
        summary.refused.append(str(refused.code))
        console.print(f"[red]{refused.code}[/] ({refused.sqlstate}), nothing was written")
    client.complete_execution(**taken.arguments(), result=b"hello from grace")
    summary.completed += 1

    for number, execution_id in enumerate(
        track(ids[1:], description="[bold]7[/]  grace works off the rest", console=console), start=2
    ):
        handle = _claim(client, "grace", execution_id)
        if number == 3:
            client.fail_execution(**handle.arguments(), failure_reason="the greeting got stuck")
            while client.promote_delayed(execution_id).outcome == "not_yet_due":
                time.sleep(0.01)
            handle = _claim(client, "grace", execution_id)
            summary.retried += 1
        context = client.read_execution_context(execution_id)
        client.complete_execution(**handle.arguments(), result=context.input_payload.upper())
        summary.completed += 1

    console.print("[bold]8[/]  What the database remembers of the third one:")
    for attempt in client.list_attempts(ids[2]):
        console.print(
            f"     attempt {attempt.attempt_index}: {attempt.attempt_type}, {attempt.attempt_state}"
            + (f" ({attempt.failure_reason})" if attempt.failure_reason else "")
        )


def _claim(client: Client, worker: Worker, execution_id: str) -> Handle:
    client.issue_claim_grant(execution_id, worker, f"{worker}-1", "default")
    return Handle.of(client.claim_execution(execution_id, worker, f"{worker}-1", lease_ttl_ms=LEASE_TTL_MS))
