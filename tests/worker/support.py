"""What the worker's tests share: a worker that runs in a thread, what it has told, and lost answers."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from flowfabric_client import Client, rows
from flowfabric_client.errors import TransportError
from flowfabric_client.worker import Worker, events
from tests.support.cluster import Connection
from tests.support.concurrency import Background, in_background, wait_until

E = TypeVar("E")

FAST: dict[str, Any] = {"poll_interval_ms": 200, "run_ticks": False}


class Running:
    """A worker at work, in a thread of the test process."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.events: list[events.Event] = []
        worker.on_event(self.events.append)
        self._run: Background[None] = in_background(lambda: asyncio.run(worker.run()))

    def all(self, kind: type[E]) -> list[E]:
        """The events of a class so far."""
        return [event for event in list(self.events) if isinstance(event, kind)]

    def wait_for(self, kind: type[E], count: int = 1) -> list[E]:
        """Wait for so many events of a class, and return those there are."""
        wait_until(
            lambda: len(self.all(kind)) >= count or self._run.is_done,
            f"the worker told {count} times of {kind.__name__}",
        )
        found = self.all(kind)
        if len(found) < count:
            self._run.result()
            raise AssertionError(f"the worker stopped after {self.events}")
        return found

    def stop(self) -> None:
        """Drain, and wait for the end."""
        self.worker.stop()
        self._run.result()


@contextmanager
def running(worker: Worker) -> Iterator[Running]:
    """Run a worker; it drains at the end of the block."""
    run = Running(worker)
    try:
        yield run
    finally:
        run.stop()


def create(client: Client, kind: str, payload: Any = None, **arguments: Any) -> str:
    """Create an execution with a JSON payload and return its id."""
    data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    return client.create_execution(kind, payload=data, **arguments).execution_id


def describe(client: Client, execution_id: str) -> rows.ExecutionSnapshot:
    """The execution as it is now."""
    found = client.describe_execution(execution_id)
    assert found is not None
    return found


def wait_for_state(client: Client, execution_id: str, state: str) -> rows.ExecutionSnapshot:
    """Wait until an execution has a public state, and return it."""
    wait_until(lambda: describe(client, execution_id).public_state == state, f"{execution_id} was {state}")
    return describe(client, execution_id)


def result_of(client: Client, execution_id: str) -> bytes | None:
    """The stored result."""
    found = client.get_execution_result(execution_id)
    assert found is not None
    return found.result


def last_attempt(client: Client, execution_id: str) -> rows.AttemptListing:
    """The newest attempt."""
    return max(client.list_attempts(execution_id), key=lambda attempt: attempt.attempt_index)


def lock_waiter(db: Connection, query_part: str) -> bool:
    """Whether a session waits for a lock in a call of this name."""
    return bool(
        db.execute(
            "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
            " and query like %s",
            [f"%{query_part}%"],
        ).rowcount
    )


def lose_an_answer(
    monkeypatch: pytest.MonkeyPatch,
    client: type[Any],
    method: str,
    *,
    number: int = 1,
) -> list[Any]:
    """Let calls of a client be committed and one answer, the first or another, be lost; all, as they come."""
    call: Callable[..., Any] = getattr(client, method)
    answers: list[Any] = []

    def heard(answer: Any) -> Any:
        answers.append(answer)
        if len(answers) == number:
            raise TransportError("the answer was lost")
        return answer

    async def lossy_in_loop(self: Any, *arguments: Any, **named: Any) -> Any:
        return heard(await call(self, *arguments, **named))

    def lossy(self: Any, *arguments: Any, **named: Any) -> Any:
        return heard(call(self, *arguments, **named))

    monkeypatch.setattr(client, method, lossy_in_loop if inspect.iscoroutinefunction(call) else lossy)
    return answers
