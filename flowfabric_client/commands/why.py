"""`flowfabric why`: the engine's own explanation of one execution."""

from __future__ import annotations

from typing import Any

import click
from rich.text import Text

from flowfabric_client.commands import examples, print_json
from flowfabric_client.commands._engine import Engine, NotThereError, engine_command
from flowfabric_client.commands._options import execution_argument
from flowfabric_client.commands._output import (
    as_dict,
    console,
    duration,
    make_fields,
    print_table,
    state,
    text,
    when,
)


@click.command(
    epilog=examples("flowfabric why '{fp:86}:6f1c...'", "flowfabric why $ID --json | jq -r .verdict")
)
@execution_argument
@engine_command
def why(engine: Engine, execution_id: str) -> None:
    """Explain why an execution is not running, and what to do about it."""
    found = engine.client.why(execution_id)
    if found.verdict == "not_found":
        raise NotThereError(f"There is no execution {execution_id}. {found.what_to_do}")
    if engine.as_json:
        print_json(as_dict(found))
        return
    now_ms = engine.client.now_ms()
    out = console()
    out.print(text(found.summary), style="bold", soft_wrap=True)
    print_table(
        make_fields(
            [
                ("state", state(found.public_state)),
                ("verdict", text(found.verdict)),
                ("since", when(found.since_ms, now_ms)),
                ("until", when(found.until_ms, now_ms)),
                ("what to do", text(found.what_to_do)),
                *(_fact(name, value, now_ms) for name, value in (found.detail or {}).items()),
            ]
        ),
        out,
    )


def _fact(name: str, value: Any, now_ms: int) -> tuple[str, Text]:
    shown = name.replace("_", " ")
    if not isinstance(value, int) or not name.endswith("_ms"):
        return shown, text(value)
    if name.endswith(("_at_ms", "_until_ms", "since_ms")):
        return shown.removesuffix(" ms"), when(value, now_ms)
    return shown.removesuffix(" ms"), duration(value)
