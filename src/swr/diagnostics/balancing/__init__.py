"""How far the units of a network are from balanced: entry-wise norms, their minimum, and the rescaling that reaches it."""

from swr.diagnostics.balancing.entrywise import entrywise_norm
from swr.diagnostics.balancing.rebalancing import balancedness, minimal_norm, rebalance

__all__ = ["balancedness", "entrywise_norm", "minimal_norm", "rebalance"]
