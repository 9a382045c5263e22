"""Help texts in lines that fit the terminal: tyro joins the lines of a description, and does not break them again."""

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

from swr.bench.words import terminal_width, wrapped

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
_COMMANDS = re.compile(r"(usage: [^{]*)\{[^}]*\}")


class _Collected(io.TextIOWrapper):
    """Text for a stream: in its colours if it is a terminal, in characters that it has."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(io.BytesIO(), encoding=stream.encoding or "utf-8", errors="replace", newline="\n")
        self._stream = stream

    def isatty(self) -> bool:
        return self._stream.isatty()

    def text(self) -> str:
        """All that was written."""
        self.seek(0)
        return self.read()


@contextmanager
def narrow_help() -> Iterator[None]:
    """What is printed inside is printed at the end, with long lines broken between words."""
    collected = _Collected(sys.stdout)
    try:
        with redirect_stdout(collected):
            yield
    finally:
        sys.stdout.write("".join(narrow(line) for line in collected.text().splitlines(keepends=True)))


def narrow(line: str) -> str:
    """One line of help.

    >>> narrow("usage: swr [-h] {run,status}\\n")
    'usage: swr [-h] COMMAND …\\n'
    """
    line = _COMMANDS.sub(r"\1COMMAND …", line)
    plain = line.rstrip("\n")
    if len(_STYLE.sub("", plain)) <= terminal_width():
        return line
    indent = " " * (len(plain) - len(plain.lstrip()))
    return wrapped(plain.strip(), indent, indent + ("    " if indent else "")) + "\n"
