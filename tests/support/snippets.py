"""The snippets of a page, and running them in order as a reader pastes them.

- Python snippets share one session, as in an interpreter. One that begins with `# jobs.py` is a file of that
  name too, and `# jobs.py, continued` its next part; files of pytest are only written, and run at the end.
- SQL goes to psql, shell to bash. Both find the database in FLOWFABRIC_DSN.
- A snippet below `<!-- not run: reason -->` is left out.

    python -m tests.support.snippets PAGE PSQL     run a page here, in the current directory
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from types import ModuleType

LANGUAGES = ("python", "sql", "sh")

_FENCE = re.compile(
    r"(?:^(?P<mark_indent> *)<!-- not run: (?P<reason>.+?) -->\n)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^(?P=indent)```$",
    re.DOTALL | re.MULTILINE,
)
_FILE = re.compile(r"# (?P<name>\w+\.py)(?P<continued>, continued)?(?::.*)?\n")


@dataclass(frozen=True)
class Snippet:
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    code: str
    not_run: str | None
    """Why it is not run; None if it is."""

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"


def snippets_of(page: Path) -> list[Snippet]:
    """The snippets of a page that are programs, in order."""
    text = page.read_text()
    return [
        Snippet(
            page,
            text[: found.start("code")].count("\n"),
            found["language"],
            dedent(found["code"]),
            found["reason"],
        )
        for found in _FENCE.finditer(text)
        if found["language"] in LANGUAGES
    ]


def run_page(page: Path, psql: str) -> None:
    """Run what is to be run; what fails raises with the place of the snippet."""
    session = ModuleType("pasted")
    sys.modules[session.__name__] = session
    test_files: set[str] = set()
    sys.path.insert(0, str(Path.cwd()))
    for snippet in snippets_of(page):
        if snippet.not_run is not None:
            continue
        print(f"--- {snippet.place}", flush=True)
        if snippet.language == "sql":
            command = [psql, "-X", "-v", "ON_ERROR_STOP=1", "-d", os.environ["FLOWFABRIC_DSN"]]
            subprocess.run(command, input=snippet.code, text=True, check=True)
        elif snippet.language == "sh":
            subprocess.run(["bash", "-euo", "pipefail", "-c", snippet.code], check=True)
        elif not _write(snippet, test_files):
            # The name makes a traceback say where the line is in the page.
            code = "\n" * snippet.line + snippet.code
            exec(compile(code, str(page), "exec", dont_inherit=True), session.__dict__)
    if test_files:
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *sorted(test_files)]
        subprocess.run(pytest, check=True)


def _write(snippet: Snippet, test_files: set[str]) -> bool:
    """Write a snippet that is a file; whether that is all that is to be done with it."""
    head = _FILE.match(snippet.code)
    if head is None:
        return False
    path = Path(head["name"])
    with path.open("a" if head["continued"] else "w") as file:
        file.write(("\n\n" if head["continued"] else "") + snippet.code)
    if path.name.startswith("test_"):
        test_files.add(path.name)
    return path.name.startswith("test_") or path.name == "conftest.py"


if __name__ == "__main__":
    run_page(Path(sys.argv[1]), sys.argv[2])
