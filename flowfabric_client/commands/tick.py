"""`flowfabric tick`: run the background scanners that are due."""

from __future__ import annotations

from collections.abc import Sequence

import click

from flowfabric_client import errors, rows
from flowfabric_client.commands import EXIT_ERROR, examples, print_json
from flowfabric_client.commands._engine import Engine, engine_command
from flowfabric_client.commands._options import duration_option
from flowfabric_client.commands._output import (
    Column,
    as_dict,
    console,
    duration,
    make_fitting_table,
    number,
    print_json_line,
    print_table,
    state,
    text,
)
from flowfabric_client.commands._repeat import keep_going

RUNS: tuple[Column[rows.ScannerRun], ...] = (
    Column("scanner", lambda row: row.scanner),
    Column("status", lambda row: row.status, state),
    Column("processed", lambda row: row.processed, number),
    Column("skipped", lambda row: row.skipped, number, drop=2),
    Column("errors", lambda row: row.errors, number),
    Column("more", lambda row: row.more, drop=1),
    Column("took", lambda row: row.duration_ms, duration),
    Column("last error", lambda row: row.last_error, can_wrap=True),
)


@click.command(
    epilog=examples(
        "flowfabric tick",
        "flowfabric tick --loop --interval 5s",
        "flowfabric tick --scanner retention --force",
    )
)
@click.option(
    "--loop", is_flag=True, help="Go on until Ctrl-C; survives a server that goes away for a while."
)
@duration_option("--interval", "interval_ms", default="1s", help="Pause of the loop.")
@click.option("--scanner", "scanners", multiple=True, help="Only this scanner; may be repeated.")
@click.option("--force", is_flag=True, help="Run them although they are not due.")
@click.option(
    "--limit", type=click.IntRange(1), default=100, show_default=True, help="Items per run of a scanner."
)
@engine_command
def tick(
    engine: Engine, *, loop: bool, interval_ms: int, scanners: Sequence[str], force: bool, limit: int
) -> None:
    """Run the background scanners that are due, once or in a loop.

    Workers tick by themselves; this is for installations whose workers do not, and for cron. Ends with 1 if
    a scanner failed.
    """
    if not loop:
        runs = _tick(engine, scanners, force=force, limit=limit)
        _print_once(engine, runs)
        if any(run.status == "failed" for run in runs):
            raise SystemExit(EXIT_ERROR)
        return
    engine.is_stream = True

    def step() -> float:
        runs = _tick(engine, scanners, force=force, limit=limit)
        for run in runs:
            if run.processed or run.errors or run.status == "failed":
                _print_next(engine, run)
        return 0.0 if any(run.more and run.processed for run in runs) else interval_ms / 1000

    keep_going(engine, step, _report_loss)


def _tick(engine: Engine, scanners: Sequence[str], *, force: bool, limit: int) -> list[rows.ScannerRun]:
    # One call per scanner, so that each is a short transaction of its own.
    client = engine.client
    names = scanners or ([row.scanner for row in client.list_scanners()] if force else client.due_scanners())
    return [run for name in names for run in client.tick(scanners=[name], force=force, limit=limit)]


def _print_once(engine: Engine, runs: list[rows.ScannerRun]) -> None:
    if engine.as_json:
        print_json({"scanners": [as_dict(run) for run in runs]})
    elif runs:
        out = console()
        print_table(make_fitting_table(runs, RUNS, 0, out), out)
    else:
        console().print("No scanner is due.", style="bright_black")


def _print_next(engine: Engine, run: rows.ScannerRun) -> None:
    if engine.as_json:
        print_json_line(as_dict(run))
    else:
        line = f"{run.scanner}: {run.status}, {run.processed} processed, {run.errors} errors"
        console().print(text(f"{line}: {run.last_error}" if run.last_error else line), soft_wrap=True)


def _report_loss(error: errors.FlowFabricError) -> None:
    console(to_stderr=True).print(text(f"Trying again: {error}"), style="yellow", soft_wrap=True)
