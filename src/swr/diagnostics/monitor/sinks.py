"""Where a monitor's rows go besides memory: a CSV file, TensorBoard, or any function."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from swr.errors import OptionError

Row = dict[str, float]
"""``"step"`` and every value that was measured at that step, by name"""

Sink = Callable[[Row], None]

_HEADER = ("step", "name", "value")


def sink_of(to: Any) -> Sink:
    """The sink for a path (CSV), an object with ``add_scalar`` (TensorBoard), or a function that is called with each row."""
    if isinstance(to, (str, Path)):
        return CsvFile(Path(to))
    if hasattr(to, "add_scalar"):
        return lambda row: _to_writer(to, row)
    if callable(to):
        return to  # type: ignore[no-any-return]
    raise OptionError(
        f"a monitor records to a path (CSV), a SummaryWriter or a function of a row, found {type(to).__name__}; "
        "leave it out to keep the rows in memory only."
    )


class CsvFile:
    """Append rows to a CSV file with the columns step, name, value: one line per number.

    The columns do not depend on the measures, so a file can be continued with other measures. Every row is written to the file
    when the call returns. An incomplete last line is dropped when the file is opened again.

    Args:
        path: a new file, or one that a monitor wrote before; missing folders are created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or not path.stat().st_size:
            path.write_text(_lines([_HEADER]), encoding="utf-8")
            return
        text = path.read_bytes()
        first = text.partition(b"\n")[0].decode(errors="replace")
        if first != ",".join(_HEADER):
            raise OptionError(
                f"{path} is not a file of a monitor: expected the columns {', '.join(_HEADER)}, found {first[:60]!r}; "
                "choose another path."
            )
        self._cut(text.rfind(b"\n") + 1)

    def __call__(self, row: Row) -> None:
        """Append one row."""
        step = int(row["step"])
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(_lines([(step, name, repr(float(value))) for name, value in row.items() if name != "step"]))

    def forget_after(self, step: int) -> None:
        """Drop the rows at the end of the file that are later than ``step``: they will be measured again."""
        lines = self.path.read_bytes().splitlines(keepends=True)
        kept = len(lines)
        while kept > 1 and int(lines[kept - 1].partition(b",")[0]) > step:
            kept -= 1
        self._cut(sum(map(len, lines[:kept])))

    def _cut(self, size: int) -> None:
        if size < self.path.stat().st_size:
            with self.path.open("r+b") as file:
                file.truncate(size)


def read_csv(path: str | Path) -> list[Row]:
    """The rows of a CSV file that a monitor wrote, equal to its ``rows`` in memory.

    >>> CsvFile(Path("run.csv"))({"step": 100, "norm/0.weight": 1.5})
    >>> read_csv("run.csv")
    [{'step': 100, 'norm/0.weight': 1.5}]

    Args:
        path: the file.
    """
    rows: list[Row] = []
    with Path(path).open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            step, name = int(line["step"]), line["name"]
            if not rows or rows[-1]["step"] != step or name in rows[-1]:
                rows.append({"step": step})
            rows[-1][name] = float(line["value"])
    return rows


def _to_writer(writer: Any, row: Row) -> None:
    for name, value in row.items():
        if name != "step":
            writer.add_scalar(name, value, int(row["step"]))


def _lines(rows: list[tuple[Any, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
