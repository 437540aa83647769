"""`flowfabric events`: what has happened, and with --follow what happens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from itertools import islice
from typing import get_args

import click
from rich.text import Text

from flowfabric_client.commands import examples
from flowfabric_client.commands._engine import Engine, engine_command
from flowfabric_client.commands._options import parse_pair
from flowfabric_client.commands._output import as_dict, console, print_json_line, text
from flowfabric_client.events import Event, EventStream

# What the line of an event shows in places of their own.
#: The end of the year 9999, the last that datetime knows.
_LAST_MS = 253_402_300_799_999
_SHOWN_FIRST = {field.name for field in fields(Event)} | {"event_type", "outcome", "execution_id"}


@click.command(
    epilog=examples(
        "flowfabric events --follow",
        "flowfabric events lease --execution '{fp:86}:6f1c...'",
        "flowfabric events operator --follow --json | jq .details",
    )
)
@click.argument("stream", type=click.Choice(get_args(EventStream)), default="completion")
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens from now on, until Ctrl-C.")
@click.option(
    "--from",
    "start",
    metavar="start|tail|CURSOR",
    help="Where to begin: what is left, now, or behind an event. Default: start, with --follow tail.",
)
@click.option("--namespace", help="Only this namespace.")
@click.option("--tag", type=parse_pair, metavar="KEY=VALUE", help="Only of executions with this tag.")
@click.option("--type", "event_types", multiple=True, help="Only this type of event; may be repeated.")
@click.option("--execution", "execution_id", help="Only of this execution.")
@click.option("--limit", type=click.IntRange(1), help="End after so many events.")
@engine_command
def events(
    engine: Engine,
    *,
    stream: EventStream,
    follow: bool,
    start: str | None,
    namespace: str | None,
    tag: tuple[str, str] | None,
    event_types: Sequence[str],
    execution_id: str | None,
    limit: int | None,
) -> None:
    """Print events, and with --follow those that happen from now on.

    STREAM is completion (the default), lease, signal, operator or worker. With --json each event is one line,
    and its `cursor` is where --from goes on behind it. Following goes on after a restart of the server.
    """
    engine.is_stream = True
    tag_key, tag_value = tag or (None, None)
    with (
        engine.watching_client() as client,
        client.events(
            stream,
            start=start or ("tail" if follow else "start"),
            namespace=namespace,
            tag_key=tag_key,
            tag_value=tag_value,
            event_types=tuple(event_types) or None,
            execution_id=execution_id,
            timeout_s=None if follow else 0,
            listen=follow,
        ) as subscription,
    ):
        out = console()
        for event in islice(subscription, limit):
            if engine.as_json:
                print_json_line({"stream": stream, **as_dict(event)})
            else:
                out.print(_line(event), soft_wrap=True)


def _line(event: Event) -> Text:
    # A time that was stored by other means may be one that Python does not know.
    at_ms = min(max(event.occurred_at_ms, 0), _LAST_MS)
    at = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    line = Text.assemble((f"{at}Z ", "bright_black"))
    line.append_text(text(getattr(event, "event_type", None) or getattr(event, "outcome", None)))
    line.append(" ").append_text(text(getattr(event, "execution_id", None)))
    for name, value in as_dict(event).items():
        if name not in _SHOWN_FIRST and value not in (None, {}):
            line.append(f" {name}=", "bright_black").append_text(text(value))
    return line
