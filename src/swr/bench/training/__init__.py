"""The training loop: a model, its optimizer, its method and its data, one epoch after the other, with exact resume.

The loop is imported when it is first used, since most modules only need the record of an epoch.
"""

from typing import TYPE_CHECKING, Any

from swr.bench.training.epoch import Epoch

if TYPE_CHECKING:
    from swr.bench.training.feed import Feed
    from swr.bench.training.loop import Training, run

__all__ = ["Epoch", "Feed", "Training", "run"]


def __getattr__(name: str) -> Any:
    if name in ("Training", "run"):
        from swr.bench.training import loop

        return getattr(loop, name)
    if name == "Feed":
        from swr.bench.training.feed import Feed

        return Feed
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
