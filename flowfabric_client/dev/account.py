"""Whom the server runs as: Postgres refuses root, so root lends it an unprivileged account."""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flowfabric_client.dev.errors import DevServerError

_UNPRIVILEGED = ("postgres", "_postgres", "nobody")
_COMMAND_TIMEOUT_S = 30


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    uid: int
    gid: int


def server_account(pgdata: Path | None) -> Account | None:
    """The account for a server on `pgdata`, if there is one already; None means our own."""
    if os.geteuid() != 0:
        return None
    if pgdata is not None and pgdata.exists() and (owner := pgdata.stat()).st_uid != 0:
        return Account(user_name(owner.st_uid), owner.st_uid, owner.st_gid)
    for name in _UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise DevServerError(
        f"Postgres refuses to run as root, and none of these users exists: {', '.join(_UNPRIVILEGED)}."
    )


def user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def run_as(account: Account | None, argv: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    """Run a short command under the account; raises OSError where the account cannot even execute it."""
    identity: dict[str, Any] = {}
    if account is not None:
        identity = {"user": account.uid, "group": account.gid, "extra_groups": []}
    return subprocess.run(  # noqa: S603 - the programs are those the caller chose to run a server with
        argv,
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=_COMMAND_TIMEOUT_S,
        **identity,
    )


def can_enter(account: Account | None, directory: Path) -> bool:
    # Asked of the kernel rather than computed from mode bits, which know nothing of access control lists.
    return run_as(account, ["/bin/sh", "-c", 'cd -- "$1"', "sh", directory]).returncode == 0


def hand_over(account: Account | None, path: Path) -> None:
    if account is not None:
        os.chown(path, account.uid, account.gid)
