"""`flowfabric lanes`: list and show, and whether a lane accepts work and hands it out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import click

from flowfabric_client import rows
from flowfabric_client.client import Client
from flowfabric_client.commands import examples, print_json
from flowfabric_client.commands._engine import Engine, NotThereError, engine_command
from flowfabric_client.commands._options import page_options, reason_option
from flowfabric_client.commands._output import (
    Column,
    as_dict,
    make_fields,
    number,
    print_table,
    state,
    text,
    when,
)

LANES: tuple[Column[rows.LaneListing], ...] = (
    Column("lane", lambda row: row.lane_id),
    Column("state", lambda row: row.lane_state, state),
    Column("since", lambda row: row.state_changed_at_ms or row.registered_at_ms, when),
    Column("reason", lambda row: row.state_reason, can_wrap=True),
    Column("registered by", lambda row: row.registered_by, drop=1),
)
_COUNTS = ("waiting", "delayed", "rate_limited", "waiting_children", "active", "suspended", "expired_leases")

lane_argument = click.argument("lane_id", metavar="LANE")


@click.group()
def lanes() -> None:
    """List lanes, look into one, or open and close it."""


@lanes.command("list", epilog=examples("flowfabric lanes list"))
@page_options
@engine_command
def list_(engine: Engine, limit: int, after: str | None) -> None:
    """List lanes and whether they accept and hand out work."""
    found = engine.client.list_lanes(after=after, limit=limit)
    engine.print_page(found, LANES, empty="There are no lanes.", next_after=lambda row: row.lane_id)


@lanes.command(
    epilog=examples("flowfabric lanes show default", "flowfabric lanes show mail --json | jq .waiting")
)
@lane_argument
@engine_command
def show(engine: Engine, lane_id: str) -> None:
    """Show a lane and count its executions that have not ended, by state."""
    lane = next((row for row in all_lanes(engine.client) if row.lane_id == lane_id), None)
    if lane is None:
        raise NotThereError(f"There is no lane {lane_id}: `flowfabric lanes list` shows those there are.")
    (counted,) = engine.client.queue_stats(lane_id=lane_id)
    if engine.as_json:
        print_json({**as_dict(lane), **as_dict(counted)})
        return
    now_ms = engine.client.now_ms()
    print_table(
        make_fields(
            [
                ("lane", text(lane.lane_id)),
                ("state", state(lane.lane_state)),
                ("since", when(lane.state_changed_at_ms, now_ms)),
                ("reason", text(lane.state_reason)),
                ("registered", when(lane.registered_at_ms, now_ms)),
                ("oldest waiting", when(counted.oldest_eligible_created_at_ms, now_ms)),
                *((name.replace("_", " "), number(getattr(counted, name))) for name in _COUNTS),
            ]
        )
    )


def all_lanes(client: Client) -> Iterator[rows.LaneListing]:
    """Every lane, in order."""
    after: str | None = None
    while page := client.list_lanes(after=after, limit=1000):
        yield from page
        if not page[-1].has_more:
            return
        after = page[-1].lane_id


@lanes.command(epilog=examples("flowfabric lanes create mail"))
@lane_argument
@engine_command
def create(engine: Engine, lane_id: str) -> None:
    """Make a lane known before its first execution; a lane that is used registers itself."""
    done = engine.client.register_lane(lane_id)
    known = "was there already" if done.outcome == "already_registered" else "is registered"
    engine.print_done(f"Lane {lane_id} {known}.", done)


@dataclass(frozen=True, slots=True)
class _Switch:
    """A command that sets the state of a lane."""

    name: str
    lane_state: str
    help: str


_SWITCHES = (
    _Switch("pause", "paused", "Accept work and hand out none."),
    _Switch("drain", "draining", "Accept no more work and hand out what is there."),
    _Switch("disable", "disabled", "Accept no work and hand out none."),
    _Switch("resume", "active", "Accept work and hand it out again."),
)


def _add_switch(switch: _Switch) -> None:
    @lanes.command(
        switch.name,
        help=f"{switch.help}\n\nRunning work is not touched.",
        epilog=examples(f"flowfabric lanes {switch.name} mail --reason 'provider is down'"),
    )
    @lane_argument
    @reason_option
    @engine_command
    def set_state(engine: Engine, lane_id: str, reason: str | None) -> None:
        done = engine.client.set_lane_state(lane_id, switch.lane_state, reason=reason)
        verb = "was already" if done.outcome == "unchanged" else "is"
        engine.print_done(f"Lane {lane_id} {verb} {switch.lane_state}.", done)


for _switch in _SWITCHES:
    _add_switch(_switch)
