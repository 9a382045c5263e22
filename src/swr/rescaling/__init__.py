"""Theorem 1 and Algorithm 1 on a plan: :func:`rescale` once, :class:`SoftWeightRescaling` after every step."""

from swr.rescaling.once import rescale
from swr.rescaling.rescaler import SoftWeightRescaling

__all__ = ["SoftWeightRescaling", "rescale"]
