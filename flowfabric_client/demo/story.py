"""What happens in the demo, told while it happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import psycopg
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.prompt import Confirm
from rich.table import Table
from rich.text import Text

from flowfabric_client import Client, Handle, errors, rows
from flowfabric_client.demo import plan

_PATIENCE_S = 60.0
_LOOK_EVERY_S = 0.1
_GHOST_LEASE_MS = 300
_COLOURS = {
    "completed": "green",
    "active": "cyan",
    "suspended": "magenta",
    "failed": "red",
    "cancelled": "yellow",
    "skipped": "yellow",
}


class DemoError(Exception):
    """The demo did not go as it should; the message says how far it came."""


@dataclass
class Summary:
    """What happened, for the last lines and for scripts."""

    executions: int = 0
    by_state: dict[str, int] = field(default_factory=dict)
    killed_worker: str = ""
    taken_over: int = 0
    takeover_seconds: float = 0.0
    refused: list[str] = field(default_factory=list)
    tokens_used: int = 0
    token_limit: int = plan.TOKEN_LIMIT
    approved_by: str = ""
    articles: int = 0
    per_second: int = 0
    drained_exit_codes: list[int] = field(default_factory=list)
    broken_invariants: int = 0
    seconds: float = 0.0


@dataclass
class WorkerProcess:
    """A worker of the demo, and where it logs to."""

    name: str
    process: subprocess.Popen[bytes]
    log: IO[bytes]

    def log_tail(self) -> str:
        """The end of its log, for the case that something went wrong."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-2000:]


@contextmanager
def _worker_processes(dsn: str) -> Iterator[list[WorkerProcess]]:
    started: list[WorkerProcess] = []
    try:
        for name in plan.WORKERS:
            log = TemporaryFile()  # noqa: SIM115 - closed below, with the process that writes it
            environment = {**os.environ, "FLOWFABRIC_DEMO_DSN": dsn, "FLOWFABRIC_DEMO_WORKER": name}
            command = [
                sys.executable,
                "-m",
                "flowfabric_client",
                "worker",
                "flowfabric_client.demo.jobs:worker",
            ]
            # A session of its own: Ctrl-C is for the demo, which then ends its workers.
            process = subprocess.Popen(  # noqa: S603 - our own module
                command, env=environment, stdout=log, stderr=log, cwd=Path.cwd(), start_new_session=True
            )
            started.append(WorkerProcess(name, process, log))
        yield started
    finally:
        for worker in started:
            worker.process.kill()
            worker.process.wait()
            worker.log.close()


class Story:
    """One run of the demo on an installed database."""

    def __init__(self, dsn: str, console: Console, *, ask: bool) -> None:
        """Tell it on a console; `ask` lets the person in front of it be the editor."""
        self._dsn = dsn
        self._console = console
        self._ask = ask
        self._step = 2
        self._live: Live | None = None
        self._ids: dict[str, str] = {}
        self._members: dict[str, rows.ExecutionSnapshot] = {}
        self._workers: list[WorkerProcess] = []
        self.summary = Summary()

    def tell(self) -> Summary:
        """Run it from the first worker to the last.

        Raises:
            DemoError: something did not happen in time.
        """
        with Client(self._dsn) as client, psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute(plan.TABLES)
            client.initialize(lanes=[plan.LANE], hmac_kid="demo")
            client.create_budget(
                plan.BUDGET,
                "lane",
                plan.LANE,
                dimensions=["tokens"],
                hard_limits=[plan.TOKEN_LIMIT],
            )
            with _worker_processes(self._dsn) as self._workers:
                self._say(f"Starting {len(plan.WORKERS)} worker processes: {', '.join(plan.WORKERS)}")
                self._wait(
                    "the workers register",
                    lambda: sum(worker.live for worker in client.list_workers()) == len(plan.WORKERS),
                )
                self._write_article(client, connection)
                self._play_the_ghost(client)
                self._drain_thumbnails(client)
                self._stop_workers()
            self._count(client, connection)
        return self.summary

    def _say(self, line: str) -> None:
        self._step += 1
        self._console.print(f"[bold]{self._step:2}[/]  {line}")

    def _write_article(self, client: Client, connection: psycopg.Connection) -> None:
        self._say(
            f"Submitting a flow: {plan.DRAFTS} drafts within a budget of {plan.TOKEN_LIMIT} tokens, a quorum "
            f"of {plan.QUORUM} of them, an approval, a publication"
        )
        submitted = client.submit_flow(plan.article().to_json())
        self._ids = {member.name: member.execution_id for member in submitted}
        with self._table_on_screen():
            self._watch(client, "drafts are written", self._are_drafts_under_way)
            killed_at_ms = self._kill_a_worker(client)
            self._watch(client, "the editor is asked", lambda: self._state("approve") == "suspended")
        self._note_takeover(client, killed_at_ms)
        self._approve(connection)
        self._watch(client, "the article is published", lambda: self._state("publish") == "completed")

    @contextmanager
    def _table_on_screen(self) -> Iterator[None]:
        """Keep the table of members current on a terminal; elsewhere print it once, as it is in the end."""
        if not self._console.is_terminal:
            yield
            self._console.print(self._table())
            return
        with Live(console=self._console, refresh_per_second=10) as self._live:
            yield
        self._live = None

    def _are_drafts_under_way(self) -> bool:
        drafts = [member for name, member in self._members.items() if name.startswith("draft-")]
        return (
            sum(draft.public_state == "active" and (draft.progress_pct or 0) >= 20 for draft in drafts) >= 4
        )

    def _kill_a_worker(self, client: Client) -> int:
        drafts = Counter(
            member.worker_instance_id
            for name, member in self._members.items()
            if name.startswith("draft-") and member.public_state == "active"
        )
        name, held = drafts.most_common(1)[0]
        victim = next(worker for worker in self._workers if worker.name == name)
        victim.process.kill()
        victim.process.wait()
        killed_at_ms = client.now_ms()
        self.summary.killed_worker = victim.name
        self._say(
            f"[red]SIGKILL[/] to worker [cyan]{victim.name}[/], which is writing {held} of the drafts: its "
            f"leases run out after {plan.LEASE_TTL_MS / 1000} s, and the others take over"
        )
        return killed_at_ms

    def _note_takeover(self, client: Client, killed_at_ms: int) -> None:
        reclaims = [
            attempt
            for execution_id in self._ids.values()
            for attempt in client.list_attempts(execution_id)
            if attempt.attempt_type == "reclaim"
        ]
        if not reclaims:
            raise DemoError("nobody took over the work of the killed worker.")
        self.summary.taken_over = len(reclaims)
        first_ms = min(attempt.created_at_ms for attempt in reclaims)
        self.summary.takeover_seconds = round((first_ms - killed_at_ms) / 1000, 2)
        self._say(
            f"{len(reclaims)} drafts were taken over, the first {self.summary.takeover_seconds} s after the "
            "kill, as second attempts with a new lease epoch"
        )

    def _approve(self, connection: psycopg.Connection) -> None:
        self._say("The flow is suspended: no worker is held while it waits for an editor, who has a token")
        approved = True
        if self._ask:
            approved = Confirm.ask("    Publish the article?", console=self._console, default=True)
        row = connection.execute("select execution_id, waitpoint_id, token from demo.inbox").fetchone()
        if row is None:
            raise DemoError("the approval is suspended, but its token is not in the inbox.")
        execution_id, waitpoint_id, token = row
        # The role of somebody who may do nothing but answer.
        with psycopg.connect(
            self._dsn, autocommit=True, options="-c role=flowfabric_signaller"
        ) as signaller_connection:
            Client(signaller_connection).deliver_signal(
                execution_id,
                waitpoint_id,
                token,
                "decision",
                source_identity="editor",
                payload=b'{"approved": true}' if approved else b'{"approved": false}',
            )
        if not approved:
            raise DemoError("the editor said no, so there is nothing to publish.")
        self.summary.approved_by = "editor"
        self._say("The editor approves, as a database role that can deliver a signed signal and nothing else")

    def _play_the_ghost(self, client: Client) -> None:
        self._say("A worker called ghost claims an execution, and stalls until its lease has run out")
        # In one transaction, or a worker would be faster.
        with client.transaction() as tx:
            created = tx.create_execution("collect", lane_id=plan.LANE, namespace="demo")
            claim = tx.issue_grant_and_claim(
                created.execution_id, _GHOST_LEASE_MS, worker_id="ghost", worker_instance_id="ghost"
            )
        ghost = Handle.of(claim)
        self._wait(
            "the ghost's execution is taken over",
            lambda: client.read_total_attempt_count(ghost.execution_id) == 2,
        )
        try:
            client.complete_execution(**ghost.arguments(), result=b"too late")
        except errors.FlowFabricError as refused:
            self.summary.refused.append(f"{refused.code} ({refused.sqlstate})")
            self._say(
                f"The ghost wakes up and wants to complete it: [red]{refused.code}[/], nothing is written"
            )
        else:
            raise DemoError("a stale worker has changed something.")

    def _drain_thumbnails(self, client: Client) -> None:
        self._say(
            f"{plan.THUMBNAILS} small executions, created in one call, for the two workers that are left"
        )
        started = time.monotonic()
        client.create_executions(
            ["thumbnail"] * plan.THUMBNAILS, lane_ids=[plan.LANE] * plan.THUMBNAILS, namespace="demo"
        )
        self._wait(
            "the thumbnails are made",
            lambda: all(lane.waiting == lane.active == 0 for lane in client.queue_stats(lane_id=plan.LANE)),
        )
        self.summary.per_second = round(plan.THUMBNAILS / (time.monotonic() - started))

    def _stop_workers(self) -> None:
        left = [worker for worker in self._workers if worker.process.poll() is None]
        for worker in left:
            worker.process.send_signal(signal.SIGTERM)
        self.summary.drained_exit_codes = [worker.process.wait(_PATIENCE_S) for worker in left]
        self._say("SIGTERM to the workers: they finish what they have and end")

    def _count(self, client: Client, connection: psycopg.Connection) -> None:
        summary = self.summary
        states: Counter[str] = Counter()
        states.update(str(execution.public_state) for execution in client.iter_executions(namespace="demo"))
        summary.by_state = dict(sorted(states.items()))
        summary.executions = states.total()
        [tokens] = client.get_budget_usage(plan.BUDGET)
        summary.tokens_used = tokens.current_value
        summary.articles = len(connection.execute("select from demo.article").fetchall())
        summary.broken_invariants = len(client.check_invariants())

    # Watching

    def _state(self, name: str) -> str | None:
        member = self._members.get(name)
        return None if member is None else member.public_state

    def _watch(self, client: Client, what: str, is_done: Callable[[], bool]) -> None:
        def look() -> bool:
            for name, execution_id in self._ids.items():
                member = client.describe_execution(execution_id)
                if member is not None:
                    self._members[name] = member
            if self._live is not None:
                self._live.update(self._table())
            for name, member in self._members.items():
                if member.public_state == "failed" and member.execution_kind != "draft":
                    raise DemoError(f"{name} failed: {member.failure_reason}.")
            return is_done()

        self._wait(what, look)

    def _wait(self, what: str, is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while not is_done():
            for worker in self._workers:
                if worker.name != self.summary.killed_worker and worker.process.poll() is not None:
                    raise DemoError(f"worker {worker.name} ended by itself:\n{worker.log_tail()}")
            if time.monotonic() > deadline:
                raise DemoError(f"waited {_PATIENCE_S:.0f} s in vain until {what}.")
            time.sleep(_LOOK_EVERY_S)

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        for name, member in self._members.items():
            state = member.public_state
            done = 100 if state == "completed" else member.progress_pct or 0
            notes = [f"attempt {member.total_attempt_count}"] if member.total_attempt_count > 1 else []
            if member.failure_reason:
                notes.append(member.failure_reason.partition(" ")[0])
            table.add_row(
                f"    {name}",
                Text(state, style=_COLOURS.get(state, "dim")),
                ProgressBar(
                    total=100, completed=done, width=20, complete_style="green", finished_style="green"
                ),
                Text(member.worker_instance_id or "", style="cyan"),
                Text(", ".join(notes), style="yellow"),
            )
        return table
