"""Objects of the user's own modules, named as ``MODULE:ATTRIBUTE``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any


class MissingAttribute(AttributeError):
    """The module was imported and does not have the attribute."""


def load_attribute(target: str) -> Any:
    """The object that ``MODULE:ATTRIBUTE`` names; modules of the current folder are found.

    >>> load_attribute("math:pi")
    3.141592653589793

    Args:
        target: The attribute may be one of an attribute, with dots between.

    Raises:
        MissingAttribute: The module does not have it. Whatever importing the module raises is passed on.
    """
    module, _, path = target.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    found: Any = importlib.import_module(module)
    for name in path.split("."):
        if not hasattr(found, name):
            raise MissingAttribute(f"{module} has no {path!r}")
        found = getattr(found, name)
    return found
