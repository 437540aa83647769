"""A second server, which has nothing of the first: neither its roles nor its transaction ids."""

from tests.install.conftest import _second_server, roleless_server

__all__ = ["_second_server", "roleless_server"]
