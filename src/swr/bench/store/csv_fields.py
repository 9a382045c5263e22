"""Fields and rows of CSV files without loss: floats keep every digit, text keeps its commas, quotes and line breaks."""

import csv
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from swr.bench.store.run_checks import ExchangeError


def line(values: tuple[object, ...]) -> str:
    """A row of a CSV file, without the line end.

    >>> line((0.1, None, True, "a, b"))
    '0.1,,true,"a, b"'
    """
    return ",".join(map(field, values))


def field(value: object) -> str:
    """One value: empty for None, text in quotes where necessary.

    The csv module of older Pythons does not quote a carriage return, which then ends the row when it is read.
    """
    if type(value) is float or type(value) is int:  # most values, and they never need quotes
        return repr(value)
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


def rows_of(path: Path, wanted: Iterable[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows of a file by the names in its first line, each with its file and line."""
    csv.field_size_limit(2**31 - 1)  # a traceback may be long
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            head = next(reader, [])
            if missing := [name for name in wanted if name not in head]:
                raise ExchangeError(f"{path}, line 1: there is no column {missing[0]!r}: export again")
            for row in reader:
                where = f"{path}, line {reader.line_num}"
                if len(row) != len(head):
                    raise ExchangeError(f"{where}: {len(row)} fields instead of {len(head)}: export again")
                yield where, dict(zip(head, row, strict=True))
    except FileNotFoundError as error:
        raise ExchangeError(f"{path} is missing: name a folder that `swr export` wrote, or a store") from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise ExchangeError(f"{path} is damaged ({error}): export again") from error
    except OSError as error:
        raise ExchangeError(f"{path} cannot be read ({error.strerror}): check its permissions") from error


_SPECIAL = re.compile('[",\r\n]')
