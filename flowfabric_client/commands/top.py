"""`flowfabric top`: a live screen of lanes, running work, workers and throughput."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flowfabric_client import errors
from flowfabric_client.commands import examples, print_json
from flowfabric_client.commands._engine import Engine, engine_command
from flowfabric_client.commands._keyboard import QUIT, keys
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
    when,
)
from flowfabric_client.commands._repeat import keep_going
from flowfabric_client.commands._snapshot import LaneLoad, RunningWork, Snapshot, WorkerLoad, take_snapshot

# Rows of running work and of workers that a frame asks for; a screen shows as many as fit.
_ROWS = 50
_SMALLEST_SHARE = 3

LANES: tuple[Column[LaneLoad], ...] = (
    Column("lane", lambda row: row.lane_id),
    Column("state", lambda row: row.lane_state, state),
    Column("waiting", lambda row: row.waiting, number),
    Column("running", lambda row: row.running, number),
    Column("delayed", lambda row: row.delayed, number, drop=2),
    Column("limited", lambda row: row.rate_limited, number, drop=4),
    Column("children", lambda row: row.waiting_children, number, drop=6),
    Column("suspended", lambda row: row.suspended, number, drop=5),
    Column("lost", lambda row: row.leases_expired, number, drop=3),
    Column("oldest", lambda row: row.oldest_age_ms or None, duration, drop=1),
)
RUNNING: tuple[Column[RunningWork], ...] = (
    Column("for", lambda row: row.running_ms, duration),
    Column("kind", lambda row: row.kind),
    Column("progress", lambda row: None if row.progress is None else f"{row.progress}%"),
    Column("lease", lambda row: "expired" if row.lease_is_expired else "live", state, drop=1),
    Column("execution", lambda row: row.execution_id, drop=2),
    Column("worker", lambda row: row.worker_instance, drop=3),
    Column("lane", lambda row: row.lane, drop=4),
)
WORKERS: tuple[Column[WorkerLoad], ...] = (
    Column("instance", lambda row: row.instance),
    Column("state", lambda row: ("draining" if row.draining else "live") if row.live else "lapsed", state),
    Column("leases", lambda row: row.leases, number),
    Column("heartbeat", lambda row: row.heartbeat_ms, when, drop=1),
    Column("worker", lambda row: row.worker, drop=3),
    Column("lanes", lambda row: row.lanes, drop=2),
)


@click.command(
    epilog=examples("flowfabric top", "flowfabric top --once", "flowfabric top --json --interval 10s")
)
@duration_option("--interval", "interval_ms", default="2s", help="Pause between looks.")
@click.option("--once", is_flag=True, help="Print one frame and end.")
@engine_command
def top(engine: Engine, interval_ms: int, once: bool) -> None:
    """Watch lanes, running work, workers and throughput.

    q or Ctrl-C ends it. Where standard output is no terminal, frames are printed one after another.
    """
    if once:
        found = take_snapshot(engine, _ROWS)
        if engine.as_json:
            print_json(as_dict(found))
        else:
            _print_frame(found)
        return
    engine.is_stream = True
    seconds = max(interval_ms, 100) / 1000
    with _screen(engine) as (show, report_loss), keys() as read_key:

        def step() -> float:
            show(take_snapshot(engine, _ROWS))
            return seconds

        def pause(pause_s: float) -> None:
            if read_key(pause_s) == QUIT:
                raise SystemExit(0)

        keep_going(engine, step, report_loss, pause=pause)


Show = Callable[[Snapshot], None]
ReportLoss = Callable[[errors.FlowFabricError], None]


@contextmanager
def _screen(engine: Engine) -> Iterator[tuple[Show, ReportLoss]]:
    out = console()
    if engine.as_json:
        yield lambda found: print_json_line(as_dict(found)), _report_loss
    elif not out.is_terminal:
        yield _print_frame, _report_loss
    else:
        # The first look happens before the screen changes, so that an error is printed where it stays.
        engine.client.ping()
        with Live(console=out, screen=True, auto_refresh=False) as live:

            def show(found: Snapshot) -> None:
                live.update(_fit(found, out), refresh=True)

            def report_loss(error: errors.FlowFabricError) -> None:
                live.update(text(f"Trying again: {error}"), refresh=True)

            yield show, report_loss


def _report_loss(error: errors.FlowFabricError) -> None:
    console(to_stderr=True).print(text(f"Trying again: {error}"), style="yellow", soft_wrap=True)


def _print_frame(found: Snapshot) -> None:
    out = console()
    out.print(_headline(found), soft_wrap=True)
    for table in _tables(found, out):
        out.print()
        print_table(table, out)
    out.print()


def _fit(found: Snapshot, out: Console) -> RenderableType:
    """A frame that is no larger than the screen."""
    # Each table has a line above it and one with its titles.
    lines = max(out.height - 1 - 2 * 3, 3 * _SMALLEST_SHARE)
    lanes = min(len(found.lanes), max(lines // 3, _SMALLEST_SHARE))
    workers = min(len(found.workers), max(lines // 4, _SMALLEST_SHARE))
    running = max(lines - lanes - workers, _SMALLEST_SHARE)
    shown = Snapshot(
        at_ms=found.at_ms,
        claimed_per_minute=found.claimed_per_minute,
        completed_per_minute=found.completed_per_minute,
        # The busiest lanes first: there may be more of them than lines.
        lanes=sorted(found.lanes, key=lambda lane: -(lane.running + lane.waiting))[:lanes],
        running=found.running[:running],
        workers=found.workers[:workers],
    )
    parts: list[RenderableType] = [_headline(found)]
    for table in _tables(shown, out):
        parts.extend((Text(), table))
    return Group(*parts)


def _headline(found: Snapshot) -> Text:
    ended = found.completed_per_minute
    failed = sum(count for outcome, count in ended.items() if outcome != "success")
    return Text.assemble(
        ("flowfabric top", "bold"),
        f"  claimed {found.claimed_per_minute:,}/min  completed ",
        (f"{ended.get('success', 0):,}/min", "green"),
        "  otherwise ended ",
        (f"{failed:,}/min", "red" if failed else "bright_black"),
        f"  running {sum(lane.running for lane in found.lanes):,}"
        f"  waiting {sum(lane.waiting for lane in found.lanes):,}",
    )


def _tables(found: Snapshot, out: Console) -> list[Table]:
    return [
        make_fitting_table(found.lanes, LANES, found.at_ms, out),
        make_fitting_table(found.running, RUNNING, found.at_ms, out),
        make_fitting_table(found.workers, WORKERS, found.at_ms, out),
    ]
