"""A program that runs `migrate` and kills itself in its middle, as often as it is asked to.

It reads a JSON object per line: `{"dsn": ..., "sources": [migrations, plpgsql], "kill_at": ["step", 3]}`.
The place is the third step that `migrate` reports, or with `"statement"` the third statement that it is about
to send outside a transaction; a kill inside one undoes it and is then the same as a kill before it. The
answer is the name of the signal that ended the run, or `finished`. Each run is a fork, which saves
importing everything again.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from flowfabric_client.install import SqlSources, migrate


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(request)
        _, status = os.waitpid(child, 0)
        answer = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "finished"
        print(answer if not os.WIFEXITED(status) or os.WEXITSTATUS(status) == 0 else "failed", flush=True)


def _run(request: dict[str, Any]) -> None:
    kind, place = request["kill_at"]
    places = count(1)

    def pass_by() -> None:
        if next(places) == place:
            os.kill(os.getpid(), signal.SIGKILL)

    if kind == "statement":
        _call_before_each_statement(pass_by)
    migrations, plpgsql = map(Path, request["sources"])
    try:
        migrate(
            request["dsn"],
            sources=SqlSources(migrations, plpgsql),
            on_step=(lambda _: pass_by()) if kind == "step" else None,
        )
    except BaseException as exc:
        print(exc, file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def _call_before_each_statement(callback: Callable[[], None]) -> None:
    """psycopg sends nothing before it waits."""
    wait = psycopg.Connection.wait

    def call_back_and_wait(self: psycopg.Connection[Any], *args: Any, **kwargs: Any) -> Any:
        if self.info.transaction_status == TransactionStatus.IDLE:
            callback()
        return wait(self, *args, **kwargs)

    psycopg.Connection.wait = call_back_and_wait  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
