"""An entry of the zoo: a small network, inputs for it, and what the scale algebra must say about it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from swr.algebra.blocks import parameter_of
from swr.algebra.plan import ScalePlan

Inputs = Callable[[], tuple[Tensor, ...]]

NEGLIGIBLE = 1e-300
"""An epsilon that leaves every float64 variance as it is; BatchNorm refuses an exact 0 in training."""


@dataclass(frozen=True)
class Network:
    """What is known by hand about one network. Names are patterns over its trainable parameters; None: not claimed."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Inputs
    """Draws positional inputs from the global generator, so that two calls give two batches."""
    free: Iterable[str] | None = ("*weight",)
    coupled: Iterable[str] | None = ()
    held: Iterable[str] | None = ()
    followers: Iterable[str] | None = ("*bias",)
    unused: Iterable[str] = ()
    normalised: bool = False
    """It divides by a standard deviation plus an epsilon, which no rescaling can move exactly."""
    constant_is_one: bool = False
    """An output is scale free, so that the one constant of all outputs is 1."""
    complete: bool = True
    """The table of the algebra finds every rescaling that exists; False with the reason where it is stricter."""
    stirred: bool = True
    """Parameters that start as all zeros or all ones are moved away from there."""

    def make(self, seed: int = 0) -> nn.Module:
        """A float64 copy in training mode whose biases, gains and running statistics are not trivial."""
        torch.manual_seed(seed)
        model = self.build().double().train()
        if self.stirred:
            stir(model)
        with torch.no_grad():
            for _ in range(3):
                model(*self.inputs())
        return model

    def expected(self, kind: str, model: nn.Module, plan: ScalePlan) -> set[str] | None:
        """The names of a kind; a pattern of a parameter stands for all its blocks, unless these are named."""
        patterns = getattr(self, kind)
        if patterns is None:
            return None
        blocks = [name for name in (*plan.weights, *plan.followers) if name != parameter_of(name)]
        whole = set(trainable(model)) - {parameter_of(name) for name in blocks}
        return {
            name
            for name in (*whole, *blocks)
            if any(name == pattern or fnmatchcase(parameter_of(name), pattern) for pattern in patterns)
        }


def trainable(model: nn.Module) -> list[str]:
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad]


def stir(model: nn.Module) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.numel() > 1 and parameter.eq(parameter.flatten()[0]).all():
                parameter.add_(torch.randn_like(parameter), alpha=0.3)


def without_epsilon(model: nn.Module) -> nn.Module:
    """Makes every normalisation of the model exact: its layers, and ours written by hand, call it `eps`."""
    for module in model.modules():
        if hasattr(module, "eps"):
            module.eps = NEGLIGIBLE
    return model


def normal(*shapes: tuple[int, ...], scale: float = 1.0) -> Inputs:
    return lambda: tuple(scale * torch.randn(shape, dtype=torch.float64) for shape in shapes)


def tokens(vocabulary: int, *shapes: tuple[int, ...]) -> Inputs:
    return lambda: tuple(torch.randint(vocabulary, shape) for shape in shapes)
