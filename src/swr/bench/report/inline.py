"""What makes a page self-contained: embedded data, the charts' library, and a content security policy.

The policy names our scripts by their hashes and forbids every other one, and everything that would be fetched: whatever the
names and errors of runs contain is shown as text.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import altair
import vl_convert
from markupsafe import Markup

from swr.bench.report.charts.marks import Rows


def embedded(data: object) -> Markup:
    """JSON for a script element: nothing in it ends the element or starts a comment.

    >>> print(embedded("</script>"))
    "\\u003c/script>"
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))


def packed(rows: Rows) -> dict[str, Any]:
    """Rows as columns, repeated words once: a third of the size; the page's script reverses it.

    >>> packed([{"line": "SWR", "epoch": 1}, {"line": "SWR", "epoch": 2}])
    {'line': {'words': ['SWR'], 'at': [0, 0]}, 'epoch': [1, 2]}
    """
    found: dict[str, Any] = {}
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows]
        if isinstance(values[0], str):
            words = {word: index for index, word in enumerate(dict.fromkeys(values))}
            found[name] = {"words": list(words), "at": [words[value] for value in values]}
        else:
            found[name] = values
    return found


def policy(scripts: Sequence[str], *, watched: bool) -> str:
    """Only our own scripts run, and nothing is fetched; a page that is being watched may ask its server."""
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'" for script in scripts]
    rules = [
        "default-src 'none'",
        " ".join(["script-src", *(hashes or ["'none'"])]),
        "style-src 'unsafe-inline'",
        "img-src data: blob:",
        *(["connect-src 'self'"] if watched else []),
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return "; ".join(rules)


@cache
def library() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, kept out of the page's namespace."""
    version = ".".join(altair.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
    return f"(() => {{\n{bundle}\n}})();".replace("</script", "<\\/script").replace("<!--", "<\\!--")
