"""The directory of one server, and who may use it.

What callers call the data directory is a home that belongs to the caller:

    pgdata/       the data directory in Postgres's sense; belongs to the account that the server runs as
    run/          the unix socket; same owner, and closed to everybody else, so that it needs no password
    server.log    the log of this run; server.log.old is that of the run before
    password      the superuser's password for TCP, once a port has been asked for

Root, who lends the server another account, writes log and password into a directory that this account
cannot change, so that a hostile server has no link to put in their place.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from flowfabric_client.dev.account import Account, can_enter, hand_over, server_account, user_name
from flowfabric_client.dev.errors import DevServerError, ServerAlreadyRunningError
from flowfabric_client.dev.server import Request, server_url

_OURS = {"pgdata", "pgdata.new", "run", "server.log", "server.log.old", "password"}

# The limit for the path of a unix socket: 103 bytes on macOS, 107 on Linux.
_LONGEST_SOCKET_PATH = 103
_LONGEST_SOCKET_NAME = ".s.PGSQL.65535"


@dataclass(frozen=True, slots=True)
class Home:
    """A directory that this process has locked; `lock` is the descriptor that holds it."""

    path: Path
    throw_away: bool
    lock: int

    @property
    def pgdata(self) -> Path:
        return self.path / "pgdata"

    @property
    def staging(self) -> Path:
        return self.path / "pgdata.new"

    @property
    def log(self) -> Path:
        return self.path / "server.log"

    @property
    def version(self) -> int | None:
        """The major version that made the data directory; None if there is none yet."""
        version_file = self.pgdata / "PG_VERSION"
        try:
            return int(version_file.read_text().partition(".")[0])
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise DevServerError(f"The data directory {self.path} is damaged: see {version_file}.") from error

    def account(self) -> Account | None:
        """Whom the server runs as; None means our own account."""
        account = server_account(self.pgdata)
        if account is not None and not can_enter(account, self.path):
            raise DevServerError(f"User {account.name}, who is to run the server, cannot enter {self.path}.")
        return account

    def make_staging(self, account: Account | None, undo: ExitStack) -> None:
        shutil.rmtree(self.staging, ignore_errors=True)
        self.staging.mkdir(mode=0o700)
        undo.callback(_remove_tree, self.staging)
        undo.callback(_remove_tree, self.pgdata)
        hand_over(account, self.staging)

    def make_run_dir(self, account: Account | None, undo: ExitStack) -> Path:
        run_dir = self.path / "run"
        if not _suits_a_socket(run_dir):
            run_dir = Path(tempfile.mkdtemp(prefix="flowfabric-", dir=_temp_dir(account)))
            undo.callback(_remove_tree, run_dir)
        elif not run_dir.exists():
            run_dir.mkdir()
            undo.callback(_remove_tree, run_dir)
        run_dir.chmod(0o700)
        hand_over(account, run_dir)
        return run_dir

    def start_log(self, undo: ExitStack) -> None:
        if self.log.exists():
            self.log.replace(self.path / "server.log.old")
        elif self.version is None:
            undo.callback(self.log.unlink, missing_ok=True)

    def password(self) -> str:
        path = self.path / "password"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(secrets.token_urlsafe(18))
        return path.read_text()


def default_data_dir() -> Path:
    """Where a kept server lives if nobody says otherwise."""
    given = os.environ.get("XDG_DATA_HOME", "")
    if Path(given).is_absolute():
        return Path(given) / "flowfabric" / "dev"
    # Root's own home is closed to the account that the server runs as.
    base = Path("/var/lib") if os.geteuid() == 0 else Path.home() / ".local" / "share"
    return base / "flowfabric" / "dev"


def open_home(request: Request, undo: ExitStack) -> Home:
    """The directory that the request means, made if need be, and locked; `undo` takes both back."""
    if request.wants_own_directory:
        path = (request.data_dir or default_data_dir()).absolute()
        is_new = _make_directories(path, undo)
    else:
        path = Path(tempfile.mkdtemp(prefix="flowfabric-", dir=_temp_dir(server_account(None))))
        path.chmod(_mode())
        is_new = True
    home = Home(path, throw_away=not request.keep, lock=_lock(path, undo))
    if is_new:
        # Later than the lock on the stack, hence undone while nobody else can have it.
        undo.callback(_remove_tree, path)
    _require_ours(home)
    return home


def _make_directories(path: Path, undo: ExitStack) -> bool:
    """Whether the last of the directories is new."""
    is_new = False
    missing = [directory for directory in (path, *path.parents) if not directory.exists()]
    for directory in reversed(missing):
        try:
            directory.mkdir()
        except FileExistsError:
            is_new = False
            continue
        is_new = directory == path
        # A mode of our own: root's umask may close what the server's account must walk through.
        directory.chmod(_mode())
        if not is_new:
            undo.callback(_remove_if_empty, directory)
    return is_new


def _mode() -> int:
    return 0o711 if os.geteuid() == 0 else 0o700


def _lock(path: Path, undo: ExitStack) -> int:
    status = path.stat()
    if status.st_uid != os.geteuid():
        owner = user_name(status.st_uid)
        raise DevServerError(f"The data directory {path} belongs to user {owner}; run as that user.")
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    undo.callback(os.close, lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise ServerAlreadyRunningError(path, _running_dsn(path / "pgdata")) from error
    return lock


def _running_dsn(pgdata: Path) -> str | None:
    try:
        lines = (pgdata / "postmaster.pid").read_text().splitlines()
        return server_url("postgres", host=lines[4], port=int(lines[3]))
    except (OSError, IndexError, ValueError):
        return None


def _require_ours(home: Home) -> None:
    if home.version is None and {entry.name for entry in home.path.iterdir()} - _OURS:
        raise DevServerError(f"The data directory {home.path} holds something else than a server of ours.")
    if home.version is not None and home.throw_away:
        raise DevServerError(f"The data directory {home.path} holds a kept server, so it is not thrown away.")


def _temp_dir(account: Account | None) -> Path:
    """A temporary directory that is short enough for sockets and open to the server's account."""
    usual = Path(tempfile.gettempdir())
    if _suits_a_socket(usual / "flowfabric-12345678" / "run") and can_enter(account, usual):
        return usual
    return Path("/tmp")  # noqa: S108 - only for directories made by mkdtemp


def _suits_a_socket(directory: Path) -> bool:
    # libpq takes a comma for the end of the host.
    is_short = len(os.fsencode(directory / _LONGEST_SOCKET_NAME)) <= _LONGEST_SOCKET_PATH
    return is_short and "," not in str(directory)


def _remove_tree(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def _remove_if_empty(path: Path) -> None:
    with suppress(OSError):
        path.rmdir()
