"""Units of a network, their incoming and outgoing weights, and where they can be observed, read from the traced graph."""

from swr.units.find import Slice, UnitLayer, Units, find_units
from swr.units.sites import Site

__all__ = ["Site", "Slice", "UnitLayer", "Units", "find_units"]
