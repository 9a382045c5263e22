"""Values as fields of a CSV file without loss: floats keep every digit, text keeps its commas, quotes and line breaks."""

import re


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


_SPECIAL = re.compile('[",\r\n]')
