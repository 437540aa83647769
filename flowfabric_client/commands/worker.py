"""`flowfabric worker module:worker`: run a worker until it is told to stop."""

import logging
import sys
from importlib import import_module

import click

from flowfabric_client.commands import examples, fail
from flowfabric_client.errors import FlowFabricError
from flowfabric_client.worker import Worker


@click.command(epilog=examples("flowfabric worker app.jobs:worker --log-level debug"))
@click.argument("target", metavar="MODULE:WORKER")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="What to log to standard error.",
)
def worker(target: str, log_level: str) -> None:
    """Run the worker that a module holds, such as `app.jobs:worker`.

    The module is looked for in the current directory too. SIGTERM or SIGINT drains: running work is
    finished, then the process ends with 0. A second signal ends it at once with 128 plus the signal's number.
    A database that goes away is waited for; one that refuses the worker for good ends it with 1.
    """
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    found = _find(target)
    if not found.kinds:
        fail(f"{target} has no handlers: register some with @worker.handler(kind).")
    try:
        found.run_forever()
    except FlowFabricError as error:
        fail(str(error))


def _find(target: str) -> Worker:
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        fail(f"{target!r} does not name a worker: write module:worker, such as app.jobs:worker.")
    sys.path.insert(0, "")
    try:
        module = import_module(module_name)
    except Exception as error:  # whatever the module of the user raises
        logging.getLogger("flowfabric.worker").debug("importing %s failed", module_name, exc_info=True)
        fail(f"module {module_name} cannot be imported: {type(error).__name__}: {error}")
    found = getattr(module, attribute, None)
    if not isinstance(found, Worker):
        fail(f"{module_name} has no worker called {attribute}.")
    return found
