"""Values as fields of a CSV file, exactly: floats keep every digit, text keeps its commas, quotes and line breaks."""

import re


def line(values: tuple[object, ...]) -> str:
    """A row of a CSV file, without its end.

    >>> line((0.1, None, True, "a, b"))
    '0.1,,true,"a, b"'
    """
    return ",".join(map(field, values))


def field(value: object) -> str:
    """One value: nothing for None, text in quotes where it has to be.

    The csv module of older Pythons leaves a lone carriage return bare, which ends a row when it is read again.
    """
    if type(value) is float or type(value) is int:  # most of what there is, and never in need of quotes
        return repr(value)
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


_SPECIAL = re.compile('[",\r\n]')
