"""An upper bound on the Lipschitz constant of a network, operator by operator."""

from swr.diagnostics.lipschitz.bound import LipschitzBound, bound_along, lipschitz_bound, traced_for_bound

__all__ = ["LipschitzBound", "bound_along", "lipschitz_bound", "traced_for_bound"]
