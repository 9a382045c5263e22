"""The command `explain`: the scale plan of the user's own model."""

import inspect
import math
import os
import re
import sys

import torch
from torch import Tensor, nn

import swr
from swr.errors import InputsError, ModelError
from swr.importing import MissingAttribute, load_attribute

INPUT = re.compile(r"(?:(?P<kind>int|float):)?(?P<shape>\d+(?:x\d+)*)")


def explain(target: str, inputs: tuple[str, ...]) -> str:
    """The plan of the model that ``PACKAGE.MODULE:FACTORY`` makes, as text.

    Args:
        target: The factory is called without arguments; modules of the current folder are found.
        inputs: The shape of each input, ``1x3x32x32``; ``int:2x16`` for integers.
    """
    for text in inputs:
        parse(text)  # before the model is made, which may take long
    model = build(target)
    if not inputs:
        raise InputsError("give the shape of the model's input, for example --input 1x3x32x32 or --input int:2x16.")
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.get_default_dtype())
    return swr.analyze(model, tuple(example(text, dtype) for text in inputs)).describe()


def example(text: str, floats: torch.dtype = torch.float32) -> Tensor:
    """An example input: random floats, or zeros for integers (they are valid indices of any embedding).

    >>> example("int:2x3").tolist()
    [[0, 0, 0], [0, 0, 0]]

    Args:
        floats: The type of the model's parameters.
    """
    kind, shape = parse(text)
    return torch.zeros(shape, dtype=torch.long) if kind == "int" else torch.randn(shape).to(floats)


def parse(text: str) -> tuple[str, tuple[int, ...]]:
    """Kind and shape of an input that fits into memory.

    >>> parse("int:2x3"), parse("1x4")
    (('int', (2, 3)), ('float', (1, 4)))
    """
    match = INPUT.fullmatch(text)
    shape = tuple(int(size) for size in match["shape"].split("x")) if match else (0,)
    if match is None or 0 in shape:
        raise InputsError(f"{text!r} is not the shape of an input: write 1x3x32x32, or int:2x16 for whole numbers.")
    needed, there = 8 * math.prod(shape), memory()
    if needed > there / 2:  # the model needs room too
        raise InputsError(
            f"an input of shape {match['shape']} takes {needed / 1e9:,.0f} GB, and this machine has {there / 1e9:,.0f} GB: "
            "give a smaller one, such as a single example."
        )
    return match["kind"] or "float", shape


def memory() -> int:
    """The memory of this machine in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # a system that does not say
        return 2**40


def build(target: str) -> nn.Module:
    """The model that a factory makes."""
    module, colon, attribute = target.partition(":")
    if not (module and colon and attribute):
        raise ModelError(f"{target!r} names no model: write PACKAGE.MODULE:FACTORY, for example torch.nn:Identity.")
    try:
        found = load_attribute(target)
    except MissingAttribute as error:
        known = vars(sys.modules[module])
        public = ", ".join(name for name, value in known.items() if not name.startswith("_") and callable(value))
        raise ModelError(f"{error}; what can be called in it: {public or 'nothing'}.") from error
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise ModelError(f"there is no module {error.name!r} here: run this in the folder it is in.") from error
        raise ModelError(f"{module} could not be imported ({error}): install what it needs.") from error
    except Exception as error:
        raise ModelError(f"{module} could not be imported ({type(error).__name__}: {error}).") from error
    try:
        model = found if isinstance(found, nn.Module) else found()
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        if not _callable_bare(found):
            raise ModelError(
                f"{target} could not be called without arguments ({reason}): name a function that makes the model by itself."
            ) from error
        raise ModelError(f"{target} was called and raised {reason}: the error is in the factory, correct it there.") from error
    if not isinstance(model, nn.Module):
        raise ModelError(f"{target} made a {type(model).__name__}, not a torch.nn.Module.")
    return model


def _callable_bare(found: object) -> bool:
    """Whether something accepts a call without arguments."""
    try:
        inspect.signature(found).bind()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True
