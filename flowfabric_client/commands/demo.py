"""`flowfabric demo`: a private Postgres, worker processes, and a story that they act out."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console

from flowfabric_client import errors
from flowfabric_client.commands import examples, fail, json_option, print_json
from flowfabric_client.demo.story import DemoError, Story, Summary
from flowfabric_client.dev import DevServerError, start_server
from flowfabric_client.install import InstallError, migrate


@click.command(epilog=examples("flowfabric demo", "flowfabric demo --ask", "flowfabric demo --json"))
@click.option("--ask", is_flag=True, help="Be the editor yourself: the demo waits for your answer.")
@json_option
def demo(ask: bool, as_json: bool) -> None:
    """Start a private Postgres, install the engine, act out a story with real workers, and remove everything.

    Several worker processes write drafts within a budget; one of them is killed with SIGKILL, and the others
    take over its work. A quorum of the drafts goes to a person for approval by token, and is published in one
    commit with its completion. A worker that stalled is refused when it answers too late.
    """
    console = Console(quiet=as_json, highlight=False)
    started = time.monotonic()
    try:
        console.print("[bold] 1[/]  Starting a private Postgres ...", end=" ")
        # A directory of its own, so that the demo installs nothing in a server that the environment names.
        home = Path(tempfile.gettempdir()) / f"flowfabric-demo-{os.getpid()}"
        with start_server(data_dir=home, keep=False) as server:
            console.print(f"PostgreSQL {server.version}, {server.provider}")
            console.print("[bold] 2[/]  Installing FlowFabric ...", end=" ")
            report = migrate(server.dsn())
            console.print(f"version {report.version}: {report.files_loaded} function files")
            summary = Story(server.dsn(), console, ask=ask).tell()
    except (DevServerError, InstallError, errors.FlowFabricError, DemoError) as exc:
        fail(str(exc), as_json=as_json)
    summary.seconds = round(time.monotonic() - started, 1)
    if as_json:
        print_json(asdict(summary))
    else:
        _print_summary(console, summary)


def _print_summary(console: Console, summary: Summary) -> None:
    states = ", ".join(f"{count} {state}" for state, count in summary.by_state.items())
    console.print(
        f"\n[green]Done in {summary.seconds} s.[/]\n"
        f"    executions   {summary.executions}: {states}\n"
        f"    takeover     {summary.taken_over} drafts of {summary.killed_worker}, the first after "
        f"{summary.takeover_seconds} s\n"
        f"    stale worker refused with {', '.join(summary.refused)}\n"
        f"    budget       {summary.tokens_used} of {summary.token_limit} tokens, never more\n"
        f"    article      published {summary.articles} time, approved by {summary.approved_by}\n"
        f"    small work   {summary.per_second} executions a second by two workers with three slots each\n"
        f"    invariants   {summary.broken_invariants} broken (ff_check_invariants)\n"
        "The server is stopped and its files are removed. What next: README.md, examples/, docs/worker.md."
    )
