"""`flowfabric budgets`: list, show, create, reset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import click

from flowfabric_client import rows
from flowfabric_client.commands import examples, print_json
from flowfabric_client.commands._engine import Engine, engine_command
from flowfabric_client.commands._options import duration_option, page_options, parse_pair, unique_pairs
from flowfabric_client.commands._output import (
    Column,
    as_dict,
    console,
    duration,
    make_fields,
    make_fitting_table,
    number,
    print_table,
    text,
    when,
)


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """One dimension of one budget, as the view for people has it."""

    budget_id: str
    scope: str
    dimension: str
    used: int
    reserved: int
    soft_limit: int | None
    hard_limit: int | None
    next_reset_at_ms: int | None


def _share(row: BudgetRow) -> str | None:
    return f"{(row.used + row.reserved) / row.hard_limit:.0%}" if row.hard_limit else None


BUDGETS: tuple[Column[BudgetRow], ...] = (
    Column("budget", lambda row: row.budget_id),
    Column("scope", lambda row: row.scope, drop=2),
    Column("dimension", lambda row: row.dimension),
    Column("used", lambda row: row.used, number),
    Column("reserved", lambda row: row.reserved, number, drop=3),
    Column("limit", lambda row: row.hard_limit, number),
    Column("share", _share),
    Column("resets", lambda row: row.next_reset_at_ms, when, drop=1),
)
DIMENSIONS: tuple[Column[rows.BudgetDimension], ...] = (
    Column("dimension", lambda row: row.dimension),
    Column("used", lambda row: row.current_value, number),
    Column("reserved", lambda row: row.reserved_value, number),
    Column("soft limit", lambda row: row.soft_limit or None, number),
    Column("hard limit", lambda row: row.hard_limit or None, number),
    Column("exhausted", lambda row: row.hard_reached),
)

# There is no function that lists budgets; the view for people is granted to readers and operators.
_PAGE = """
    select
        b.budget as budget_id, b.scope, b.dimension, b.used, b.reserved, b.soft_limit, b.hard_limit,
        (extract(epoch from b.next_reset_at) * 1000)::bigint as next_reset_at_ms
    from flowfabric.ff_v_budget as b
    where b.budget in (
        select distinct p.budget collate "C"
        from flowfabric.ff_v_budget as p
        where p.budget collate "C" > %(after)s
        order by 1
        limit %(limit)s)
    order by b.budget collate "C", b.dimension
"""

budget_argument = click.argument("budget_id", metavar="BUDGET")


@click.group()
def budgets() -> None:
    """List budgets, look into one, create or reset it."""


@budgets.command("list", epilog=examples("flowfabric budgets list"))
@page_options
@engine_command
def list_(engine: Engine, limit: int, after: str | None) -> None:
    """List budgets by dimension: usage, reservations and limits."""
    found = engine.view("ff_v_budget", _PAGE, BudgetRow, after=after or "", limit=limit + 1)
    by_budget = [list(group) for _, group in groupby(found, lambda row: row.budget_id)]
    engine.print_page(
        [row for group in by_budget[:limit] for row in group],
        BUDGETS,
        empty="There are no budgets.",
        next_after=lambda row: row.budget_id,
        has_more=len(by_budget) > limit,
    )


@budgets.command(epilog=examples("flowfabric budgets show tenant-7"))
@budget_argument
@engine_command
def show(engine: Engine, budget_id: str) -> None:
    """Show a budget: usage by dimension, breaches and resets."""
    client = engine.client
    found = client.get_budget_status(budget_id)
    dimensions = client.get_budget_usage(budget_id)
    if engine.as_json:
        print_json({**as_dict(found), "dimensions": [as_dict(dimension) for dimension in dimensions]})
        return
    now_ms = client.now_ms()
    out = console()
    print_table(
        make_fields(
            [
                ("budget", text(found.budget_id)),
                ("scope", text(f"{found.scope_type} {found.scope_id}")),
                ("at the hard limit", text(found.on_hard_limit)),
                ("at the soft limit", text(found.on_soft_limit)),
                ("breaches", text(f"{found.breach_count} hard, {found.soft_breach_count} soft")),
                ("last breach", when(found.last_breach_at_ms, now_ms)),
                ("last breach of", text(found.last_breach_dim)),
                ("resets every", duration(found.reset_interval_ms or None)),
                ("next reset", when(found.next_reset_at_ms, now_ms)),
                ("last reset", when(found.last_reset_at_ms, now_ms)),
                ("created", when(found.created_at_ms, now_ms)),
            ]
        ),
        out,
    )
    if dimensions:
        out.print()
        print_table(make_fitting_table(dimensions, DIMENSIONS, now_ms, out), out)


@budgets.command(
    epilog=examples(
        "flowfabric budgets create tenant-7 --scope tenant=7 --hard tokens=1000000 --reset-every 1d"
    )
)
@budget_argument
@click.option(
    "--scope", type=parse_pair, metavar="TYPE=ID", required=True, help="What the budget is for; a label."
)
@click.option("--hard", type=parse_pair, metavar="DIMENSION=N", multiple=True, help="Never pass this.")
@click.option(
    "--soft", type=parse_pair, metavar="DIMENSION=N", multiple=True, help="Report when this is passed."
)
@duration_option("--reset-every", "reset_ms", default="0s", help="Begin anew that often.")
@engine_command
def create(
    engine: Engine,
    *,
    budget_id: str,
    scope: tuple[str, str],
    hard: Sequence[tuple[str, str]],
    soft: Sequence[tuple[str, str]],
    reset_ms: int,
) -> None:
    """Create a budget; one that exists keeps its limits."""
    hard_limits, soft_limits = _limits(hard, "--hard"), _limits(soft, "--soft")
    dimensions = sorted({*hard_limits, *soft_limits})
    if not dimensions:
        raise click.UsageError("Name at least one limit with --hard or --soft.")
    done = engine.client.create_budget(
        budget_id,
        *scope,
        dimensions=dimensions,
        hard_limits=[hard_limits.get(dimension, 0) for dimension in dimensions],
        soft_limits=[soft_limits.get(dimension, 0) for dimension in dimensions],
        reset_interval_ms=reset_ms,
    )
    known = "is created" if done.outcome == "created" else "was there already and stays as it is"
    engine.print_done(f"Budget {budget_id} {known}.", done)


def _limits(pairs: Sequence[tuple[str, str]], option: str) -> dict[str, int]:
    try:
        return {dimension: int(limit) for dimension, limit in unique_pairs(pairs, option).items()}
    except ValueError as error:
        raise click.UsageError(f"{option} takes DIMENSION=N, and N is a whole number.") from error


@budgets.command(epilog=examples("flowfabric budgets reset tenant-7"))
@budget_argument
@engine_command
def reset(engine: Engine, budget_id: str) -> None:
    """Set all usage of a budget back to zero."""
    done = engine.client.reset_budget(budget_id)
    engine.print_done(f"Budget {budget_id} is reset, for the {done.reset_count}. time.", done)
