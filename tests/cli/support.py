"""What the command line's tests share: commands in this process, and work for them to look at."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from click.testing import CliRunner, Result

from flowfabric_client.cli import cli
from flowfabric_client.client import Client
from flowfabric_client.flow import Flow
from flowfabric_client.handle import Handle

UNREACHABLE = "postgresql://me:s3cret@127.0.0.1:1/shop"
UNKNOWN_EXECUTION = "{fp:1}:00000000-0000-4000-8000-000000000001"
UNKNOWN_UUID = "00000000-0000-4000-8000-000000000001"


@dataclass(frozen=True)
class CommandLine:
    """Runs commands against one database."""

    dsn: str

    def run(
        self, *args: str, input: str | bytes | None = None, env: Mapping[str, str | None] | None = None
    ) -> Result:
        """Run a command to its end, however it ends."""
        settings = {"FLOWFABRIC_DSN": self.dsn, "FLOWFABRIC_TOKEN": None, **(env or {})}
        result = CliRunner().invoke(cli, args, input=input, env=settings)
        # A traceback on the screen of a user is a bug, whatever the exit code says.
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def text(self, *args: str, exit_code: int = 0, **more: Any) -> str:
        """What a command prints on standard output."""
        result = self.run(*args, **more)
        assert result.exit_code == exit_code, result.output
        return result.stdout

    def json(self, *args: str, exit_code: int = 0, **more: Any) -> Any:
        """The JSON document that a command prints."""
        return json.loads(self.text(*args, "--json", exit_code=exit_code, **more))

    def lines(self, *args: str, exit_code: int = 0, **more: Any) -> list[Any]:
        """The JSON documents that a command prints, one per line."""
        return [
            json.loads(line) for line in self.text(*args, "--json", exit_code=exit_code, **more).splitlines()
        ]

    def error(self, *args: str, exit_code: int, **more: Any) -> str:
        """What a command that fails says, on standard error only."""
        result = self.run(*args, **more)
        assert result.exit_code == exit_code, result.output
        assert result.stdout == ""
        return result.stderr


def create(client: Client, kind: str = "greet", **arguments: Any) -> str:
    """An execution that waits."""
    return client.create_execution(kind, **arguments).execution_id


def running(client: Client, kind: str = "greet", instance: str = "ada-1", **arguments: Any) -> Handle:
    """An execution in the hands of a worker."""
    execution_id = create(client, kind, **arguments)
    return Handle.of(
        client.issue_grant_and_claim(execution_id, 3_600_000, worker_id="ada", worker_instance_id=instance)
    )


def write(client: Client, handle: Handle, payload: bytes) -> None:
    """A frame of the output of an execution."""
    client.append_frame(
        handle.execution_id,
        handle.attempt_index,
        handle.lease_id,
        handle.lease_epoch,
        handle.attempt_id,
        frame_type="delta",
        payload=payload,
    )


def failed(client: Client, reason: str = "broken") -> str:
    """An execution that has ended in failure."""
    handle = running(client)
    client.fail_execution(**handle.arguments(), failure_reason=reason)
    return handle.execution_id


def flow(client: Client) -> UUID:
    """A flow of two members, the second of which waits for the first."""
    built = Flow().task("first", kind="pack").task("second", kind="ship", after=["first"])
    return client.submit_flow(built.to_json())[0].flow_id
