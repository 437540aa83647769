"""The benchmark's side of a host process: start it, ask it, end it."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from types import TracebackType
from typing import Any, Self

from bench import CACHE, ROOT
from bench.systems import Runtime, System

ANSWER_WITHIN = 300.0


class HostError(Exception):
    """A system could not do what it was asked; one line says why."""


def _command(system: System) -> list[str]:
    commands: dict[Runtime, list[str]] = {
        "own": [sys.executable, "-m", "bench.host", system.name],
        "peers": [str(CACHE / "venv" / "bin" / "python"), "-m", "bench.host", system.name],
        "node": ["node", str(ROOT / "bench" / "systems" / "node" / "host.mjs"), system.module],
    }
    return commands[system.runtime]


class HostProcess:
    """The process that holds the clients of one system (bench/host.py, or its twin for Node)."""

    def __init__(self, system: System) -> None:
        logs = CACHE / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        self._name = system.name
        self._log_path = logs / f"{system.name}.log"
        with self._log_path.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                _command(system),
                cwd=ROOT,
                env={**os.environ, "BENCH_NODE": str(CACHE / "node")},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                bufsize=0,
                start_new_session=True,
            )
        self._buffer = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def ask(self, do: str, **arguments: Any) -> Any:
        """One request, one answer.

        Raises:
            HostError: the system failed, or did not answer in time.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
        except BrokenPipeError:
            raise HostError(f"its process ended: {self._last_words()}") from None
        answer = json.loads(self._read_line(do))
        if "error" in answer:
            raise HostError(answer["error"])
        return answer["ok"]

    def kill(self) -> None:
        """End the host and all of its clients at once."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _read_line(self, do: str) -> bytes:
        output = self._process.stdout
        assert output is not None
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(ANSWER_WITHIN):
                    raise HostError(f"no answer to {do} within {ANSWER_WITHIN:.0f} s")
                chunk = os.read(output.fileno(), 65536)
                if not chunk:
                    raise HostError(f"its process ended: {self._last_words()}")
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _last_words(self) -> str:
        lines = self._log_path.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "without a word")
