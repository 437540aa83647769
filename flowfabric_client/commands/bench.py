"""`flowfabric bench`: the benchmark of a checkout."""

import sys
from importlib import import_module
from pathlib import Path

import click

from flowfabric_client.commands import examples, fail

CHECKOUT = Path(__file__).resolve().parents[2]


@click.command(
    context_settings={"ignore_unknown_options": True},
    epilog=examples(
        "flowfabric bench --quick", "flowfabric bench --scenario single,batch --only floor,flowfabric"
    ),
)
@click.argument("options", metavar="[OPTIONS OF THE BENCHMARK]", nargs=-1, type=click.UNPROCESSED)
def bench(options: tuple[str, ...]) -> None:
    """Run the benchmark of a checkout: this engine and its peers, side by side.

    It starts a private Postgres and installs the peers into .cache/bench of the checkout. The options are
    those of `python -m bench`; bench/README.md says what is measured.
    """
    if not (CHECKOUT / "bench" / "__main__.py").is_file():
        fail("The benchmark is part of a checkout of FlowFabric, not of the package: run make bench in one.")
    sys.path.insert(0, str(CHECKOUT))
    import_module("bench.cli").main(args=list(options), prog_name="flowfabric bench")
