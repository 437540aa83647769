"""What can go wrong with a private Postgres; every message is one sentence for the person at the terminal."""

from __future__ import annotations

from pathlib import Path


class DevServerError(Exception):
    """No private Postgres could be had; the message says why."""


class ProviderUnavailableError(DevServerError):
    """This provider cannot serve the request, another may; the message is a clause, not a sentence."""


class ServerStartError(DevServerError):
    """The server was started and did not come up; `log` is the end of its own log."""

    def __init__(self, sentence: str, log: str) -> None:
        super().__init__(f"{sentence}\nServer log:\n{log}" if log else sentence)
        self.log = log


class ServerAlreadyRunningError(DevServerError):
    """Another process runs a server on the data directory; `dsn` reaches it unless it is still starting."""

    def __init__(self, data_dir: Path, dsn: str | None) -> None:
        super().__init__(f"A server already runs on {data_dir}{f': connect with {dsn}' if dsn else '.'}")
        self.data_dir = data_dir
        self.dsn = dsn
