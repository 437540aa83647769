"""`flowfabric consumers`: the positions that consumers of events have stored, and how to move them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

import click

from flowfabric_client.commands import examples
from flowfabric_client.commands._engine import Engine, NotThereError, engine_command
from flowfabric_client.commands._options import reason_option
from flowfabric_client.commands._output import Column, number, when
from flowfabric_client.events import EventStream


@dataclass(frozen=True, slots=True)
class _Consumer:
    """Where a consumer stands in a stream."""

    consumer: str
    stream: str
    owner: str | None
    cursor: str
    behind_rows: int
    is_expired: bool
    updated_at_ms: int


CONSUMERS: tuple[Column[_Consumer], ...] = (
    Column("consumer", lambda row: row.consumer),
    Column("stream", lambda row: row.stream),
    Column("behind", lambda row: row.behind_rows, number),
    Column("stored", lambda row: row.updated_at_ms, when),
    Column("owner", lambda row: row.owner, drop=2),
    Column("expired", lambda row: row.is_expired, drop=1),
    Column("cursor", lambda row: row.cursor, drop=3),
)

consumer_argument = click.argument("consumer", metavar="CONSUMER")
stream_argument = click.argument("stream", type=click.Choice(get_args(EventStream)), default="completion")


@click.group()
def consumers() -> None:
    """List the stored positions of consumers of events, or move them."""


@consumers.command("list", epilog=examples("flowfabric consumers list"))
@engine_command
def list_(engine: Engine) -> None:
    """List the consumers, how many events each has still to read, and the role that owns its position."""
    found = [
        _Consumer(stream=lag.stream, **_known(row))
        for lag in engine.client.event_lag()
        for row in lag.consumers
    ]
    engine.print_page(found, CONSUMERS, empty="No consumer has stored a position.")


def _known(row: dict[str, Any]) -> dict[str, Any]:
    fields = ("consumer", "owner", "cursor", "behind_rows", "is_expired", "updated_at_ms")
    return {name: row.get(name) for name in fields}


@consumers.command(
    epilog=examples(
        "flowfabric consumers rewind billing --to start",
        "flowfabric consumers rewind billing lease --to v1:1:81234:907 --reason 'lost a day'",
    )
)
@consumer_argument
@stream_argument
@click.option(
    "--to",
    "position",
    required=True,
    metavar="start|tail|CURSOR",
    help="The new position: before the oldest event that is kept, now, or after the event of a cursor.",
)
@reason_option
@engine_command
def rewind(engine: Engine, consumer: str, stream: EventStream, position: str, reason: str | None) -> None:
    """Move the stored position of a consumer, back or forward.

    Stop the consumer first: while it runs, it stores the position it has reached. The move is recorded as an
    operator event.
    """
    client = engine.client
    cursor = client.event_position(stream, where=position) if position in ("start", "tail") else position
    done = client.set_event_cursor(consumer, stream, cursor, reason=reason)
    _require_stored(done.outcome, consumer, stream)
    verb = "was already" if done.outcome == "unchanged" else "is"
    engine.print_done(f"Consumer {consumer} {verb} at {cursor} of stream {stream}.", done)


@consumers.command(
    epilog=examples("flowfabric consumers forget billing", "flowfabric consumers forget audit operator")
)
@consumer_argument
@stream_argument
@reason_option
@engine_command
def forget(engine: Engine, consumer: str, stream: EventStream, reason: str | None) -> None:
    """Delete the stored position of a consumer; the next role that stores one under this name owns it."""
    done = engine.client.delete_event_cursor(consumer, stream, reason=reason)
    _require_stored(done.outcome, consumer, stream)
    engine.print_done(f"The position of consumer {consumer} in stream {stream} is deleted.", done)


def _require_stored(outcome: str, consumer: str, stream: str) -> None:
    if outcome == "not_stored":
        raise NotThereError(
            f"Consumer {consumer} has stored no position in stream {stream}: "
            "`flowfabric consumers list` shows those there are."
        )
