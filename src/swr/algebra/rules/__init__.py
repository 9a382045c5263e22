"""One small rule per operator: the form of its output, and what it demands of its inputs.

Tables first: whole families of operators share a rule. A rule takes the flow and the operator's arguments by the names of
its schema (tensors as :class:`~swr.algebra.forms.Value`) and returns a form, or a tuple of forms for several outputs.
An operator without a rule holds: all its inputs must keep their scale. So a missing rule can restrict, never break.
"""

from swr.algebra.rules import degree_one, limits, matrices, network, normalising, products, scale_free, sums
from swr.algebra.rules.rulebook import lookup, rule

__all__ = ["degree_one", "limits", "lookup", "matrices", "network", "normalising", "products", "rule", "scale_free", "sums"]
