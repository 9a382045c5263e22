"""A zoo of small networks: one table that drives every test of a claim about networks in general."""

from .chains import CHAINS
from .network import Network, normal, stir, tokens, trainable, without_epsilon
from .pathologies import PATHOLOGIES
from .sequences import ATTENTION_AND_RECURRENCE
from .vision import VISION

ZOO: tuple[Network, ...] = CHAINS + VISION + ATTENTION_AND_RECURRENCE + PATHOLOGIES

__all__ = ["ZOO", "Network", "normal", "stir", "tokens", "trainable", "without_epsilon"]
