"""The process that holds a system's clients: `python -m bench.host SYSTEM`.

It answers one JSON object per line of input. Clients are forked from it, so that they share nothing and cost
next to nothing to start; the host itself never connects. `prepare` starts them, `go` lets them run all at
once, `end` lets them go: between the answers the benchmark can read the server's counters while all are
connected.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from bench.systems import SYSTEMS
from bench.systems.adapter import Adapter
from bench.tasks import TASKS, Task, task_class

_FORK = multiprocessing.get_context("fork")


class ClientError(Exception):
    """A client process failed."""


def _reporting_errors(target: Callable[..., None], pipe: Connection, *arguments: Any) -> None:
    try:
        target(pipe, *arguments)
    except BaseException as error:
        pipe.send(ClientError(_summary(error)))
        raise


def _summary(error: BaseException) -> str:
    """One line: what a report has room for. The traceback is in the log."""
    if isinstance(error, BaseExceptionGroup):
        return _summary(error.exceptions[0])
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _install(pipe: Connection, adapter: Adapter) -> None:
    adapter.install()
    pipe.send(None)
    pipe.recv()


def _client(pipe: Connection, adapter: Adapter, task: Task) -> None:
    async def live() -> None:
        await adapter.open()
        await task.prepare()
        pipe.send(None)
        # In a thread, because a worker that the task has started goes on meanwhile.
        await asyncio.to_thread(pipe.recv)
        pipe.send(await task.run())
        pipe.recv()
        await adapter.close()

    asyncio.run(live())


class Host:
    """The clients of one system."""

    def __init__(self, name: str) -> None:
        system = SYSTEMS[name]
        self.adapter_class: type[Adapter] = import_module(f"bench.systems.{system.module}").ADAPTER
        self.options = dict(system.options)
        self.clients: list[tuple[BaseProcess, Connection]] = []

    def hello(self) -> dict[str, Any]:
        """What is measured, and which tasks it can do."""
        tasks = [name for name in TASKS if task_class(name, self.adapter_class)]
        return {"version": self.adapter_class.version(), "tasks": tasks}

    def install(self, dsn: str) -> None:
        # In a process of its own: what an installer leaves behind must not be forked into the clients.
        self._start(_install, self.adapter_class(dsn, self.options))
        self._receive()
        self.end()

    def prepare(self, dsn: str, task: str, clients: int, arguments: dict[str, Any]) -> None:
        kind = task_class(task, self.adapter_class)
        if kind is None:
            raise ClientError(f"it has no task {task}")
        for number in range(clients):
            adapter = self.adapter_class(dsn, self.options)
            self._start(_client, adapter, kind(adapter, number, **arguments))
        self._receive()

    def go(self) -> list[Any]:
        for _, pipe in self.clients:
            pipe.send(None)
        return self._receive()

    def end(self) -> None:
        for _, pipe in self.clients:
            pipe.send(None)
        for process, _ in self.clients:
            process.join()
        self.clients.clear()

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        ours, theirs = _FORK.Pipe()
        process = _FORK.Process(target=_reporting_errors, args=(target, theirs, *arguments))
        process.start()
        theirs.close()
        self.clients.append((process, ours))

    def _receive(self) -> list[Any]:
        answers = []
        for process, pipe in self.clients:
            try:
                answer = pipe.recv()
            except EOFError:
                raise ClientError(f"a client process ended with status {process.exitcode}") from None
            if isinstance(answer, ClientError):
                raise answer
            answers.append(answer)
        return answers


def main() -> None:
    """Serve until the input ends. What libraries print goes to the log, not between the answers."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    host = Host(sys.argv[1])
    for line in sys.stdin:
        request = json.loads(line)
        action = getattr(host, request.pop("do"))
        try:
            answer = {"ok": action(**request)}
        except Exception as error:
            traceback.print_exc()
            answer = {"error": str(error) if isinstance(error, ClientError) else _summary(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
