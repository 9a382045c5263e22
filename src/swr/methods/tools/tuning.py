"""What a fair comparison tries of each method: at most five configurations, in an order in which neighbours stand together.

The values are from the range that the method's paper, or its authors' code, tries; where neither has one, around the default.
"""

from __future__ import annotations

from collections.abc import Mapping

Tuning = tuple[Mapping[str, float], ...]
"""hyper-parameters by keyword, configuration by configuration"""

MOST = 5
"""configurations that a method may have"""


def along(option: str, *values: float) -> Tuning:
    """Configurations that differ in one option.

    >>> along("coefficient", 1e-3, 1e-2)
    ({'coefficient': 0.001}, {'coefficient': 0.01})
    """
    return tuple({option: value} for value in values)


DECADES = along("coefficient", 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""of the coefficient of a penalty"""
