"""`flowfabric run`: create an execution and watch it to its end."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import click
from rich.text import Text

from flowfabric_client import errors, rows
from flowfabric_client._backoff import passes
from flowfabric_client.client import Client
from flowfabric_client.commands import EXIT_ERROR, EXIT_TIMED_OUT, examples, fail
from flowfabric_client.commands._engine import Engine, engine_command
from flowfabric_client.commands._options import (
    duration_option,
    parse_pair,
    read_bytes,
    read_json_object,
    unique_pairs,
)
from flowfabric_client.commands._output import as_dict, console, print_json_line, state, text
from flowfabric_client.commands._text import plain, readable, span
from flowfabric_client.ended import Ended
from flowfabric_client.frames import Frame

# How often state and progress are looked at; frames come when they are written.
_LOOK_EVERY_S = 0.25

Update = rows.ExecutionSnapshot | Frame


@click.command(
    epilog=examples(
        "flowfabric run ship_order '{\"order\": 42}'",
        "flowfabric run render @scene.json --timeout 10m > image.png",
        "flowfabric run report - --detach --json < input.json",
    )
)
@click.argument("kind")
@click.argument("payload", metavar="[PAYLOAD|@FILE|-]", required=False)
@click.option("--lane", "lane_id", default="default", show_default=True, help="The queue.")
@click.option("--namespace", default="default", show_default=True, help="The namespace.")
@click.option(
    "--priority", type=int, default=0, show_default=True, help="A greater number is claimed earlier."
)
@click.option("--tag", "tags", type=parse_pair, metavar="KEY=VALUE", multiple=True, help="May be repeated.")
@click.option("--policy", metavar="JSON|@FILE", help="The policy: retries, timeouts, budgets, quota.")
@click.option("--encoding", "payload_encoding", help="A hint how to read the payload.")
@click.option("--key", "idempotency_key", help="Create at most one execution under this key.")
@duration_option("--delay", "delay_ms", help="Let it wait that long first.")
@duration_option("--timeout", "timeout_ms", help="Stop watching after so long; the execution goes on.")
@click.option("--detach", is_flag=True, help="Only create it.")
@engine_command
def run(
    engine: Engine,
    *,
    kind: str,
    payload: str | None,
    policy: str | None,
    tags: Sequence[tuple[str, str]],
    delay_ms: int | None,
    timeout_ms: int | None,
    detach: bool,
    **creation: Any,
) -> None:
    """Create an execution and wait for its end, showing progress and output live.

    Standard output gets the result and nothing else, standard error what happens meanwhile. With --json,
    standard output gets one object per line, the last of which has the result. Ends with 0 if the execution
    was completed, with 1 if it ended otherwise, with 5 at the timeout. Ctrl-C stops watching; the execution
    goes on. Creating needs flowfabric_producer, watching flowfabric_reader.
    """
    engine.is_stream = True
    data = read_bytes(payload)
    settings = read_json_object(policy, "--policy")
    labels = unique_pairs(tags, "--tag")
    client = engine.client
    created = client.create_execution(
        kind,
        payload=data,
        policy=settings,
        tags=labels,
        delay_until_ms=None if delay_ms is None else client.now_ms() + delay_ms,
        **creation,
    )
    if detach:
        if engine.as_json:
            print_json_line({"type": "created", **as_dict(created)})
        else:
            click.echo(created.execution_id)
        return
    report = _JsonReport() if engine.as_json else _TextReport()
    report.created(created)
    with engine.watching_client() as watcher:
        try:
            for update in _watch(watcher, created.execution_id, timeout_ms):
                report.update(update)
            ended = watcher.wait(created.execution_id, timeout_s=0)
        except TimeoutError:
            fail(
                f"{created.execution_id} has not ended within {span(timeout_ms or 0)} and goes on: see "
                f"`flowfabric why '{created.execution_id}'`.",
                as_json=engine.as_json,
                exit_code=EXIT_TIMED_OUT,
                facts={"execution_id": created.execution_id},
                on_one_line=True,
            )
    report.ended(ended)
    if not ended.succeeded:
        raise SystemExit(EXIT_ERROR)


def _watch(client: Client, execution_id: str, timeout_ms: int | None) -> Iterator[Update]:
    """What is new about an execution, until it has ended and its output is read; or a TimeoutError."""
    give_up_at = float("inf") if timeout_ms is None else time.monotonic() + timeout_ms / 1000
    news: queue.SimpleQueue[Frame | errors.FlowFabricError] = queue.SimpleQueue()
    is_over = threading.Event()
    with client.tail_stream(execution_id, attempt_index=0) as frames, ExitStack() as leaving:
        leaving.callback(is_over.set)

        def read_frames() -> None:
            try:
                for frame in frames:
                    news.put(frame)
            except errors.FlowFabricError as error:
                news.put(error)
            except RuntimeError:
                # The client is closed when nobody watches any more.
                if not is_over.is_set():
                    raise

        reader = threading.Thread(target=read_frames, daemon=True)
        reader.start()
        last: rows.ExecutionSnapshot | None = None
        while True:
            found = _look(client, execution_id) or last
            if found is not None and (last is None or _differs(found, last)):
                yield found
            last = found
            has_ended = last is not None and last.lifecycle_phase == "terminal"
            if has_ended and not reader.is_alive() and news.empty():
                return
            remaining_s = give_up_at - time.monotonic()
            if remaining_s <= 0 and not has_ended:
                raise TimeoutError
            try:
                item = news.get(timeout=_LOOK_EVERY_S if has_ended else min(_LOOK_EVERY_S, remaining_s))
            except queue.Empty:
                continue
            if isinstance(item, errors.FlowFabricError):
                raise item
            yield item


def _look(client: Client, execution_id: str) -> rows.ExecutionSnapshot | None:
    """The execution as it is; None while the server is away."""
    try:
        found = client.describe_execution(execution_id)
    except errors.FlowFabricError as error:
        if not passes(error):
            raise
        return None
    if found is None:
        raise errors.ExecutionNotFoundError(details={"execution_id": execution_id})
    return found


def _differs(found: rows.ExecutionSnapshot, last: rows.ExecutionSnapshot) -> bool:
    return any(
        getattr(found, name) != getattr(last, name)
        for name in ("public_state", "current_attempt_index", "progress_pct", "progress_message")
    )


class _TextReport:
    """For people: what happens on standard error, the result on standard output."""

    def __init__(self) -> None:
        self._out = console(to_stderr=True)

    def created(self, created: rows.ExecutionOutcome) -> None:
        self._out.print(text(f"{created.outcome} {created.execution_id}"), soft_wrap=True)

    def update(self, update: Update) -> None:
        if isinstance(update, Frame):
            payload = readable(update.payload)
            shown = (
                plain(payload, keep="\n\t") if isinstance(payload, str) else f"{len(update.payload)} bytes"
            )
            self._out.print(
                Text(f"{plain(update.frame_type)}: ", "bright_black").append(shown), soft_wrap=True
            )
            return
        line = state(update.public_state)
        if update.public_state == "active" and update.worker_instance_id:
            line.append(f" on {plain(update.worker_instance_id)}", "default")
        if update.progress_pct is not None:
            line.append(f" {update.progress_pct}%", "bold")
        if update.progress_message:
            line.append(f" {plain(update.progress_message)}", "default")
        self._out.print(line, soft_wrap=True)

    def ended(self, ended: Ended) -> None:
        reason = ended.failure_reason or ended.cancellation_reason
        if reason:
            self._out.print(text(reason), style="red", soft_wrap=True)
        if ended.result is None:
            return
        if sys.stdout.isatty():
            result = readable(ended.result)
            click.echo(
                plain(result, keep="\n\t") if isinstance(result, str) else f"{len(ended.result)} bytes"
            )
        else:
            sys.stdout.buffer.write(ended.result)
            sys.stdout.buffer.flush()


class _JsonReport:
    """For scripts: one object per line."""

    def created(self, created: rows.ExecutionOutcome) -> None:
        print_json_line({"type": "created", **as_dict(created)})

    def update(self, update: Update) -> None:
        if isinstance(update, Frame):
            print_json_line({"type": "frame", **as_dict(update)})
        else:
            print_json_line(
                {
                    "type": "progress",
                    "public_state": update.public_state,
                    "attempt_index": update.current_attempt_index,
                    "worker_instance_id": update.worker_instance_id,
                    "progress_pct": update.progress_pct,
                    "progress_message": update.progress_message,
                }
            )

    def ended(self, ended: Ended) -> None:
        print_json_line({"type": "ended", **as_dict(ended)})
