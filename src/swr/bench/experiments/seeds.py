"""The random numbers of a run: one seed, and a separate generator for each purpose."""

from __future__ import annotations

import hashlib

from torch import Generator


def generator(seed: int, purpose: str) -> Generator:
    """The random generator of one seed for one purpose; two purposes never share a sequence.

    >>> torch.equal(torch.rand(3, generator=generator(0, "chunks")), torch.rand(3, generator=generator(0, "batches")))
    False
    """
    return Generator().manual_seed(seed_of(seed, purpose))


def seed_of(seed: int, purpose: str) -> int:
    """A seed made from a run's seed and a purpose; the same for every method, so that runs of one seed can be compared."""
    return int.from_bytes(hashlib.sha256(f"{purpose} {seed}".encode()).digest()[:7], "big")
