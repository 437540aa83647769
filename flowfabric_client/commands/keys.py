"""`flowfabric keys`: the keys that sign waitpoint tokens, by name; no secret is ever shown."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from flowfabric_client import rows
from flowfabric_client.commands import examples
from flowfabric_client.commands._engine import Engine, engine_command
from flowfabric_client.commands._options import duration_option
from flowfabric_client.commands._output import Column, state, when

KEYS: tuple[Column[rows.KidListing], ...] = (
    Column("key", lambda row: row.kid),
    Column("status", lambda row: row.status, state),
    Column("installed", lambda row: row.installed_at_ms, when),
    Column("good until", lambda row: row.expires_at_ms, when),
)


@click.group()
def keys() -> None:
    """List the keys that sign waitpoint tokens, or rotate them."""


@keys.command("list", epilog=examples("flowfabric keys list"))
@engine_command
def list_(engine: Engine) -> None:
    """List the keys whose tokens are accepted now, the one that signs first."""
    engine.print_page(
        engine.client.list_waitpoint_hmac_kids(),
        KEYS,
        empty="There is no signing key: install one with `flowfabric keys rotate`.",
    )


@keys.command(epilog=examples("flowfabric keys rotate", "flowfabric keys rotate 2026-q3 --grace 7d"))
@click.argument("key_id", metavar="[KEY]", required=False)
@duration_option(
    "--grace",
    "grace_ms",
    default="1d",
    help="How long tokens of the old key stay good; 0s revokes all of them at once.",
)
@engine_command
def rotate(engine: Engine, key_id: str | None, grace_ms: int) -> None:
    """Install a new signing key; the database makes its secret, and nobody ever sees it.

    KEY is the name of the new key; without it the name is made of the time. The same name again changes
    nothing.
    """
    client = engine.client
    if key_id is None:
        key_id = f"{datetime.fromtimestamp(client.now_ms() / 1000, UTC):%Y%m%dT%H%M%SZ}"
    done = client.rotate_waitpoint_hmac_secret(key_id, grace_ms=grace_ms)
    if done.outcome == "noop":
        engine.print_done(f"Key {key_id} was installed before; {done.current_kid} signs.", done)
    else:
        engine.print_done(f"Key {done.current_kid} signs from now on.", done)
