"""Connection strings in messages: what they reach and why that failed, never with a password."""

import os
import re

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

CONNECT_TIMEOUT_S = 10

NOT_A_CONNECTION_STRING = (
    "The DSN is not a connection string that Postgres understands: "
    "write postgresql://user@host:port/database or 'host=... dbname=...'."
)


def require_connection_string(conninfo: str) -> None:
    """Raise a ValueError if libpq cannot read a connection string.

    Not libpq's own message, which repeats a part of the string, and that part may be the password.
    """
    try:
        conninfo_to_dict(conninfo)
    except psycopg.Error:
        raise ValueError(NOT_A_CONNECTION_STRING) from None


def with_connect_timeout(conninfo: str) -> str:
    """The connection string with a limit for connecting, unless it or the environment sets one."""
    if "connect_timeout" in conninfo_to_dict(conninfo) or "PGCONNECT_TIMEOUT" in os.environ:
        return conninfo
    return make_conninfo(conninfo, connect_timeout=CONNECT_TIMEOUT_S)


def display_name(conninfo: str) -> str:
    """What a connection string points to, for people."""
    parts = {key: str(value) for key, value in conninfo_to_dict(conninfo).items() if value}
    shown = " ".join(
        f"{key}={parts[key]}" for key in ("service", "host", "port", "user", "dbname") if key in parts
    )
    return shown or "the database that libpq's environment names"


def failure_reason(exc: psycopg.Error, conninfo: str) -> str:
    """Why a connection could not be made, on one line."""
    # libpq adds a line that asks whether the server is running; the sentence says enough without it.
    text = " ".join(re.sub(r"\n\t[^\n]*", "", str(exc)).split())
    text = re.sub(r"^connection (failed|is bad): ", "", text).rstrip(".")
    given = conninfo_to_dict(conninfo)
    for secret in (given.get("password"), given.get("sslpassword"), os.environ.get("PGPASSWORD")):
        if secret:
            text = text.replace(str(secret), "***")
    return text
