"""The SQL of the engine: in a checkout it lies beside the package, in a wheel inside it."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

_MIGRATION_NAME = re.compile(r"(?P<number>\d{4})\..+\.sql")
_NOT_TRANSACTIONAL = re.compile(r"^\s*--\s*transactional\s*:\s*false", re.IGNORECASE | re.MULTILINE)
_CREATED_ROUTINE = re.compile(
    r"\bcreate\s+(?:or\s+replace\s+)?(?:function|procedure)\s+flowfabric\.(\w+)", re.IGNORECASE
)
_TEST_CLOCK_SUFFIX = ".test_clock.sql"


class SqlSourceError(Exception):
    """The SQL files that this package ships are missing or not as they must be."""


@dataclass(frozen=True, slots=True)
class SqlFile:
    """A file as messages name it (`plpgsql/00_core/errors.sql`) and its text, with `\\n` line ends."""

    name: str
    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class MigrationFile(SqlFile):
    """A migration; `id` is the name under which yoyo keeps it, `number` its version in the ledger."""

    number: int
    id: str


@dataclass(frozen=True, slots=True)
class SqlSources:
    """A directory of migrations and a directory of function files that belong together."""

    migrations_dir: Path
    plpgsql_dir: Path

    @classmethod
    def shipped(cls) -> "SqlSources":
        """The sources of this package."""
        package = Path(__file__).resolve().parent
        for root in (package / "_sql_files", package.parent):
            sources = cls(root / "migrations", root / "plpgsql")
            if sources.migrations_dir.is_dir() and sources.plpgsql_dir.is_dir():
                return sources
        raise SqlSourceError(
            f"The SQL files are neither inside nor beside {package}: reinstall flowfabric-client."
        )

    def migrations(self) -> list[MigrationFile]:
        """All migrations in the order of their numbers."""
        found: dict[int, MigrationFile] = {}
        for path in sorted(self.migrations_dir.glob("*.sql")):
            if path.name.endswith(".rollback.sql"):
                continue
            name = f"{self.migrations_dir.name}/{path.name}"
            match = _MIGRATION_NAME.fullmatch(path.name)
            if match is None:
                raise SqlSourceError(f"{name} is not named like 0001.what-it-does.sql.")
            number = int(match["number"])
            if number in found:
                raise SqlSourceError(f"{name} has the same number as {found[number].name}.")
            text = path.read_text(encoding="utf-8")
            if _NOT_TRANSACTIONAL.search(text):
                raise SqlSourceError(
                    f"{name} is not transactional: a kill in its middle would leave half of it."
                )
            found[number] = MigrationFile(name, path, text, number, path.stem)
        if not found:
            raise SqlSourceError(f"There is no migration in {self.migrations_dir}.")
        return [found[number] for number in sorted(found)]

    def functions(self, *, with_test_clock: bool) -> list[SqlFile]:
        """The function files in load order; those of the test clock only if the installation has one."""
        paths = {
            path.relative_to(self.plpgsql_dir).as_posix(): path for path in self.plpgsql_dir.rglob("*.sql")
        }
        return [
            self._function_file(relative, paths[relative])
            for relative in sorted(paths)
            if with_test_clock or not relative.endswith(_TEST_CLOCK_SUFFIX)
        ]

    def routines_of_migrations(self) -> frozenset[str]:
        """Names of functions that tables need: a migration created them, and no function file has to."""
        return frozenset(
            name for migration in self.migrations() for name in _CREATED_ROUTINE.findall(migration.text)
        )

    def roles(self) -> SqlFile:
        """The file that creates the client roles; it is all that needs more than the owner's privileges."""
        relative = "00_core/00_roles.sql"
        return self._function_file(relative, self.plpgsql_dir / relative)

    def digest(self, *, with_test_clock: bool) -> str:
        """What an installation records, to see the next time that nothing changed.

        Migrations enter by name only: a released one never changes.
        """
        digest = hashlib.sha256(b"test clock" if with_test_clock else b"wall clock")
        for migration in self.migrations():
            digest.update(f"\0{migration.id}".encode())
        for file in self.functions(with_test_clock=with_test_clock):
            digest.update(f"\0{file.name}\0{file.text}".encode())
        return digest.hexdigest()

    def _function_file(self, relative: str, path: Path) -> SqlFile:
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError as exc:
            raise SqlSourceError(f"{path} is missing.") from exc
        return SqlFile(f"{self.plpgsql_dir.name}/{relative}", path, text)
