"""Why a model cannot be traced, in one sentence that says what to do about it."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from torch import Tensor, nn
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_map_only

from swr.algebra.copies import first_line, rejection
from swr.errors import ModelError, SWRError


def refusal(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], error: Exception) -> SWRError:
    """The error to raise where ``torch.export`` raised one: about the inputs, or about a place in the model's forward."""
    if (rejected := rejection(model, args, kwargs)) is not None:
        return rejected
    line, place = _place(error)
    if isinstance(error, GuardOnDataDependentSymNode):
        cause, remedy = _data_dependent(line, place)
    else:
        cause = f"torch.export raised {type(error).__name__}{place}: {first_line(error).split('. ')[0]}"
        remedy = "write its forward with torch operators on tensors, tuples and dictionaries, or move that part out of it"
    if _is_chain(model, args, kwargs):
        remedy += ", or use plan=swr.chain(model, example_inputs) if its layers always run one after the other, as they do here"
    return ModelError(f"{type(model).__name__} cannot be traced: {cause}; {remedy}.")


def _data_dependent(line: str, place: str) -> tuple[str, str]:
    words = line.split()
    if words and words[0] in ("for", "while"):
        return (
            f"its forward loops as often as the value of a tensor says{place}",
            "run a number of rounds that is a Python integer, or move the loop out of forward",
        )
    if any(word in ("if", "elif", "assert") for word in words):
        return (
            f"its forward branches on the value of a tensor{place}",
            "write the branch with torch.where or torch.cond, or move it out of forward",
        )
    return (
        f"its forward needs the value of a tensor as a Python number{place}",
        "keep it a tensor (no .item(), .tolist(), int() or float() there), or move it out of forward",
    )


def _place(error: Exception) -> tuple[str, str]:
    """The innermost line outside torch that was running, and the same with its file, for a sentence."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if not _is_machinery(frame)]
    if not frames:
        return "", ""
    frame, number = frames[-1]
    line = linecache.getline(frame.f_code.co_filename, number, frame.f_globals).strip()
    quoted = f" (`{line if len(line) <= 60 else line[:60] + '…'}`)" if line else ""
    return line, f" at {Path(frame.f_code.co_filename).name}:{number}{quoted}"


def _is_machinery(frame: FrameType) -> bool:
    """Whether the frame runs torch's own code, but for its layers, or ours."""
    module = str(frame.f_globals.get("__name__", "torch"))
    return module.split(".")[0] in ("torch", "swr", "contextlib") and not module.startswith("torch.nn.modules.")


def _is_chain(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a plan by registration order keeps the function, on the example and on its mirror image, and scales something.

    The mirror image often takes the other side of a branch.
    """
    from swr.algebra.chain import chain  # which needs plans, which need traces

    try:
        mirrored, named = tree_map_only(Tensor, lambda t: -t if t.is_floating_point() else t, (args, dict(kwargs)))
        chain(model, mirrored, named)
        return bool(chain(model, args, kwargs).scaled)
    except SWRError:
        return False
