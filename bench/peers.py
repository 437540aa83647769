"""The peers' packages, in places of their own under .cache/bench: nothing of theirs enters .venv."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path

from bench import CACHE, ROOT
from bench.systems import Runtime

REQUIREMENTS = ROOT / "bench" / "requirements.txt"
PACKAGE = ROOT / "bench" / "package.json"
STAMP = ".installed"


class PeersUnavailableError(Exception):
    """The peers of one runtime cannot be installed; one line says why."""


def install(runtimes: Iterable[Runtime], on_step: Callable[[str], None]) -> dict[Runtime, str]:
    """Install what is missing; return why a runtime has no peers, for each that has none.

    Of the packages for Python those that can be installed are: a system that misses its own says so itself.
    """
    installers: dict[Runtime, Callable[[Callable[[str], None]], None]] = {
        "peers": _install_python_peers,
        "node": _install_node_peers,
    }
    reasons: dict[Runtime, str] = {}
    for runtime, installer in installers.items():
        if runtime in set(runtimes):
            try:
                installer(on_step)
            except PeersUnavailableError as error:
                reasons[runtime] = str(error)
    return reasons


def _install_python_peers(on_step: Callable[[str], None]) -> None:
    directory = CACHE / "venv"
    # The driver of the peers is the one that we use ourselves.
    requirements = REQUIREMENTS.read_text(encoding="utf-8") + f"psycopg=={version('psycopg')}\n"
    if _is_installed(directory, requirements):
        return
    on_step("installing the peers from PyPI into .cache/bench/venv (once)")
    shutil.rmtree(directory, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(directory)])
    lines = [line for line in requirements.splitlines() if line and not line.startswith("#")]
    pip = [
        str(directory / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--quiet",
    ]
    try:
        _run([*pip, *lines])
    except PeersUnavailableError:
        for line in lines:
            on_step(f"installing {line}")
            subprocess.run([*pip, line], check=False, capture_output=True)
        return
    (directory / STAMP).write_text(requirements, encoding="utf-8")


def _install_node_peers(on_step: Callable[[str], None]) -> None:
    directory = CACHE / "node"
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise PeersUnavailableError(f"{program} is not installed")
    package = PACKAGE.read_text(encoding="utf-8")
    if _is_installed(directory, package):
        return
    on_step("installing the peers from npm into .cache/bench/node (once)")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    shutil.copy(PACKAGE, directory)
    _run(["npm", "install", "--no-audit", "--no-fund", "--loglevel=error"], cwd=directory)
    (directory / STAMP).write_text(package, encoding="utf-8")


def _is_installed(directory: Path, wanted: str) -> bool:
    stamp = directory / STAMP
    return stamp.exists() and stamp.read_text(encoding="utf-8") == wanted


def _run(command: list[str], cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, check=False, capture_output=True, text=True)
    if done.returncode:
        words = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise PeersUnavailableError(f"{Path(command[0]).name} failed: {words[-1] if words else 'no output'}")
