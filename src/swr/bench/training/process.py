"""Settings of the processor and the system for training: no denormal numbers, large memory pages, memory that is kept."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

LARGE = 2 * 2**20
"""bytes of a large page"""


@contextmanager
def flushed_denormals() -> Iterator[None]:
    """Treat denormal numbers as zero inside, in this thread.

    The moments of weights that get no gradient any more (dead units) decay into denormals and stay there,
    and many processors compute with those far more slowly.
    """
    before = _flushing()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def in_large_pages(tensor: Tensor) -> Tensor:
    """The same tensor in memory with large pages, where the system has them.

    Batches are gathered from random addresses, and looking up a page costs as much as reading it; large pages make a gather
    faster. A tensor that is small or not on the CPU is returned unchanged.
    """
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is None or tensor.device.type != "cpu" or tensor.nbytes < 4 * LARGE:
        return tensor
    try:
        pages = mmap.mmap(-1, -(-tensor.nbytes // LARGE) * LARGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        pages.madvise(advice)
    except OSError:
        return tensor
    return torch.frombuffer(pages, dtype=tensor.dtype, count=tensor.numel()).view(tensor.shape).copy_(tensor)


def keep_memory() -> bool:
    """Never return freed memory to the system, for the rest of this process; whether the system supports this.

    The activations of a convolutional network are tens of megabytes. glibc maps such blocks again at every step, and the system
    clears every page of them: a third of the CNN's step in a new process, less after larger blocks raised glibc's threshold.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    return mallopt is not None and bool(mallopt(_MMAP_MAX, 0)) and bool(mallopt(_TRIM_THRESHOLD, -1))


_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's malloc.h


def _flushing() -> bool:
    smallest = torch.tensor([1.1754944e-38])
    return bool((smallest * 0.5 == 0).item())
