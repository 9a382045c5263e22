"""The command `explain`: the scale plan of the user's own model."""

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
    examples = tuple(example(text) for text in inputs)
    model = build(target)
    if not examples:
        raise InputsError("give the shape of the model's input, for example --input 1x3x32x32 or --input int:2x16.")
    return swr.analyze(model, examples).describe()


def example(text: str) -> Tensor:
    """An example input: random floats, or zeros for integers (they are valid indices of any embedding).

    >>> example("int:2x3").tolist()
    [[0, 0, 0], [0, 0, 0]]
    """
    match = INPUT.fullmatch(text)
    if match is None or "0" in match["shape"].split("x"):
        raise InputsError(f"{text!r} is not the shape of an input: write 1x3x32x32, or int:2x16 for whole numbers.")
    shape = [int(size) for size in match["shape"].split("x")]
    return torch.zeros(shape, dtype=torch.long) if match["kind"] == "int" else torch.randn(shape)


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
        raise ModelError(
            f"{target} could not be called without arguments ({type(error).__name__}: {error}): "
            "name a function that makes the model by itself."
        ) from error
    if not isinstance(model, nn.Module):
        raise ModelError(f"{target} made a {type(model).__name__}, not a torch.nn.Module.")
    return model
