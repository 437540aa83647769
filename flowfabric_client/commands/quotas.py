"""`flowfabric quotas`: list, show, create."""

from __future__ import annotations

from dataclasses import dataclass

import click

from flowfabric_client.commands import examples, print_json
from flowfabric_client.commands._engine import Engine, NotThereError, engine_command
from flowfabric_client.commands._options import duration_option, page_options
from flowfabric_client.commands._output import (
    Column,
    as_dict,
    duration,
    make_fields,
    number,
    print_table,
    text,
    when,
)


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One quota policy, as the view for people has it."""

    quota_policy_id: str
    max_requests_per_window: int | None
    window_ms: int
    entries_in_window: int
    active_concurrency_cap: int | None
    active_concurrency: int


QUOTAS: tuple[Column[QuotaRow], ...] = (
    Column("quota", lambda row: row.quota_policy_id),
    Column("started", lambda row: row.entries_in_window, number),
    Column("of", lambda row: row.max_requests_per_window, number),
    Column("per", lambda row: row.window_ms if row.max_requests_per_window else None, duration),
    Column("running", lambda row: row.active_concurrency, number),
    Column("of", lambda row: row.active_concurrency_cap, number),
)

# There is no function that lists quota policies; the view for people is granted to readers and operators.
_PAGE = """
    select
        q.policy as quota_policy_id, q.per_window as max_requests_per_window,
        (extract(epoch from q."window") * 1000)::bigint as window_ms, q.used_in_window as entries_in_window,
        q.cap as active_concurrency_cap, q.held as active_concurrency
    from flowfabric.ff_v_quota as q
    where q.policy collate "C" > %(after)s
    order by q.policy collate "C"
    limit %(limit)s
"""

quota_argument = click.argument("quota_id", metavar="QUOTA")


@click.group()
def quotas() -> None:
    """List quota policies, look into one, or create it."""


@quotas.command("list", epilog=examples("flowfabric quotas list"))
@page_options
@engine_command
def list_(engine: Engine, limit: int, after: str | None) -> None:
    """List quota policies and what of them is in use."""
    found = engine.view("ff_v_quota", _PAGE, QuotaRow, after=after or "", limit=limit + 1)
    engine.print_page(
        found[:limit],
        QUOTAS,
        empty="There are no quota policies.",
        next_after=lambda row: row.quota_policy_id,
        has_more=len(found) > limit,
    )


@quotas.command(epilog=examples("flowfabric quotas show provider"))
@quota_argument
@engine_command
def show(engine: Engine, quota_id: str) -> None:
    """Show a quota policy: its limits, the starts in its window and the slots in use."""
    found = engine.client.get_quota_policy(quota_id)
    if found is None:
        raise NotThereError(
            f"There is no quota policy {quota_id}: `flowfabric quotas list` shows those there are."
        )
    if engine.as_json:
        print_json(as_dict(found))
        return
    print_table(
        make_fields(
            [
                ("quota", text(found.quota_policy_id)),
                ("starts", text(_of(found.entries_in_window, found.max_requests_per_window))),
                ("window", duration(found.requests_per_window_seconds * 1000 or None)),
                ("running", text(_of(found.active_concurrency, found.active_concurrency_cap))),
                ("jitter", duration(found.jitter_ms or None)),
                ("created", when(found.created_at_ms, engine.client.now_ms())),
            ]
        )
    )


def _of(used: int, limit: int) -> str:
    return f"{used:,} of {limit:,}" if limit else f"{used:,}, no limit"


@quotas.command(epilog=examples("flowfabric quotas create provider --starts 100 --window 1m --running 10"))
@quota_argument
@click.option("--starts", type=click.IntRange(min=0), default=0, help="At most so many starts per window.")
@duration_option("--window", "window_ms", default="1m", help="The window.")
@click.option("--running", type=click.IntRange(min=0), default=0, help="At most so many at once.")
@duration_option("--jitter", "jitter_ms", default="0s", help="Spread retries over so long.")
@engine_command
def create(
    engine: Engine, *, quota_id: str, starts: int, window_ms: int, running: int, jitter_ms: int
) -> None:
    """Create a quota policy; one that exists stays as it is."""
    if not starts and not running:
        raise click.UsageError("Name a limit with --starts, --running or both.")
    if window_ms % 1000:
        raise click.UsageError("--window is a whole number of seconds.")
    done = engine.client.create_quota_policy(
        quota_id, window_ms // 1000, starts, running, jitter_ms=jitter_ms
    )
    known = "is created" if done.outcome == "created" else "was there already and stays as it is"
    engine.print_done(f"Quota policy {quota_id} {known}.", done)
