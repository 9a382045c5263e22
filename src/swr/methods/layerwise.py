"""Layerwise re-initialisation: rescale the first blocks, re-initialise the others, one block more each time.

Blocks and the order they run in are read from the order of registration: a block begins with a convolution or a fully
connected layer and ends before the next. Networks that run in another order, or apply activations inside ``forward()``,
name their blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from swr.checks import choice, whole
from swr.errors import ModelError, OptionError
from swr.methods.base import Batches, LossFunction, Method, learnable, restore
from swr.methods.tools.fresh import Initialiser, fresh_values, inside, own_initialiser
from swr.methods.tools.layers import is_convolution
from swr.methods.tools.optimizer_state import Policy, check_policy, forget
from swr.methods.tools.tuning import along
from swr.norms import frobenius_norms

ZeroNorm = Literal["zero", "keep"]


ZERO = 1e-6
"""a norm or a deviation below this counts as zero"""


class Block(NamedTuple):
    """Consecutive layers.

    Attributes:
        layers: its modules with parameters of their own.
        end: the module whose output is the block's.
        axis: of that output's channels.
    """

    layers: list[nn.Module]
    end: nn.Module
    axis: int


class Layerwise(Method):
    """Keep one block more at each new task: rescale it to its initial norms, normalise its output, re-initialise the rest.

        p <- p ‖p_0‖ / ‖p‖        tensor by tensor, in blocks 1 … k;   p <- 0 where ‖p_0‖ = 0
        x <- (x - m_k) / s_k      after block k, per channel, of one batch and then fixed
        p <- fresh                in blocks k+1 … K

    At the t-th new task k = ⌈t/N⌉ for N rounds a block; when all K blocks are kept only the rescaling is left. A tensor
    (3, 4) that began with norm 2.5 becomes (1.5, 2); one that began as zeros becomes zeros again.

    >>> method = Layerwise(model)
    >>> method.new_task()

    When:
        At a new task. m_k and s_k are those of the first batch in training mode after it.

    Touches:
        All learnable parameters. What is in no block (a stem) is always rescaled and never drawn. Running statistics stay. m_k
        and s_k become part of the network: forward hooks apply them, and ``close()`` takes them away. The source trains each
        round with a new optimizer, the loop's to do.

    Keeps:
        The initial norms, the number of tasks, the m_k and s_k.

    Args:
        blocks: names of modules, in the order they run, the classifier last; by default one for each convolution and fully
            connected layer, with what is registered between it and the next.
        rounds: N, new tasks for which k stays the same.
        normalise: False leaves out m_k and s_k, which makes it a different method; the source has the same switch.
        zero_norm: "zero" sets a tensor that began as zeros to zeros; "keep" leaves it, a bias for instance, as it was learnt.
        initialise: re-initialises one layer; by default its own ``reset_parameters()``.
        optimizer_state: what the optimizer forgets of drawn tensors, a policy of :mod:`swr.methods.tools.optimizer_state`.

    References:
        I. Alabdulmohsin, H. Maennel, D. Keysers, 2021, "The Impact of Reinitialization on Generalization in Convolutional
        Neural Networks", as read by Zhou et al. in llf_ke/train_KE_cls_LW.py. One factor for each tensor is their reading; the
        paper may mean one for each block.
    """

    name = "layerwise"
    title = "Layerwise"
    tuning = along("rounds", 1, 2, 4, 8, 16)
    owns = frozenset({"all weights at a new task"})
    symbols = {"rounds": "N"}  # noqa: RUF012

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        blocks: Sequence[str] | None = None,
        rounds: int = 1,
        normalise: bool = True,
        zero_norm: ZeroNorm = "zero",
        initialise: Initialiser = own_initialiser,
        optimizer_state: Policy = "clear_moments",
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.rounds = whole(rounds, "rounds N")
        choice(zero_norm, "zero_norm", get_args(ZeroNorm))
        self.zero_norm = zero_norm
        self.initialise = initialise
        self.optimizer_state = check_policy(optimizer_state)
        self.blocks = registered_blocks(model) if blocks is None else named_blocks(model, blocks)
        self._parameters = learnable(model)
        self._block_of = _owners(self.blocks)
        norms = frobenius_norms([p.detach() for p in self._parameters.values()])
        self._norms = dict(zip(self._parameters, norms, strict=True))
        self._tasks = 0
        self._waiting = 0
        """the block whose output is to be measured in the next training batch; 0: none"""
        self._statistics: dict[int, tuple[Tensor, Tensor]] = {}
        self._hooks = []
        if normalise:
            for k, block in enumerate(self.blocks[:-1], 1):
                self._hooks.append(block.end.register_forward_hook(self._normaliser(k, block.axis)))

    @torch.no_grad()
    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """Keep blocks 1 … k, re-initialise the others."""
        self._tasks += 1
        k = min(-(-self._tasks // self.rounds), len(self.blocks))
        kept = {name: p for name, p in self._parameters.items() if self._block_of.get(p, 0) <= k}
        norms = frobenius_norms(list(kept.values())).tolist()
        for (name, p), norm in zip(kept.items(), norms, strict=True):
            initial = float(self._norms[name])
            if initial > ZERO and norm > 0:
                p.mul_(initial / norm)
            elif initial <= ZERO and self.zero_norm == "zero":
                p.zero_()
        if k == len(self.blocks):
            return
        fresh = fresh_values((layer for block in self.blocks[k:] for layer in block.layers), self.generator, self.initialise)
        for name, p in self._parameters.items():
            if name not in kept:
                p.copy_(fresh[p])
                forget(self.optimizer, p, policy=self.optimizer_state)
        self._waiting = k if self._hooks else 0
        self._statistics.pop(k, None)

    def close(self) -> None:
        """Detach from the optimizer and take the normalisation of the blocks' outputs away."""
        super().close()
        for hook in self._hooks:
            hook.remove()

    def _normaliser(self, k: int, axis: int) -> Any:
        def hook(module: nn.Module, inputs: Any, output: Any) -> Any:
            if k == self._waiting and module.training:
                self._statistics[k] = statistics(output, axis)
                self._waiting = 0
            if k not in self._statistics:
                return None
            mean, deviation = self._statistics[k]
            return (output - mean) / deviation

        return hook

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        measured = {str(k): list(pair) for k, pair in self._statistics.items()}
        return {"norms": dict(self._norms), "tasks": self._tasks, "waiting": self._waiting, "statistics": measured}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        restore(self._norms, state["norms"])
        self._tasks, self._waiting = int(state["tasks"]), int(state["waiting"])
        device = next(iter(self._parameters.values())).device
        self._statistics = {int(k): (m.to(device), s.to(device)) for k, (m, s) in state["statistics"].items()}


@torch.no_grad()
def statistics(output: Any, axis: int) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel, in a shape that broadcasts; a channel that is constant is not scaled."""
    if not isinstance(output, Tensor) or output.ndim < 2:
        raise ModelError(f"a block gives {type(output).__name__} in place of a batch of features; use normalise=False.")
    others = [i for i in range(output.ndim) if i != axis % output.ndim]
    deviation = output.std(others, correction=0, keepdim=True)
    return output.mean(others, keepdim=True), torch.where(deviation > ZERO, deviation, 1.0)


def registered_blocks(model: nn.Module) -> list[Block]:
    """One block for each convolution and fully connected layer, with what is registered between it and the next.

    >>> network = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Conv2d(2, 2, 3))
    >>> [len(block.layers) for block in registered_blocks(network)]
    [2, 1]
    """
    blocks: list[Block] = []
    for module in model.modules():
        owns = next(module.parameters(recurse=False), None) is not None
        if is_convolution(module) or isinstance(module, nn.Linear):
            blocks.append(Block([module], module, 1 if is_convolution(module) else -1))
        elif blocks and (owns or next(module.children(), None) is None):
            last = blocks[-1]
            blocks[-1] = last._replace(
                layers=[*last.layers, module] if owns else last.layers,
                end=last.end if isinstance(module, nn.Flatten) else module,  # channels are still apart before it
            )
    if not blocks:
        raise ModelError("the model has no convolution or fully connected layer; name its blocks with blocks=.")
    return blocks


def named_blocks(model: nn.Module, names: Sequence[str]) -> list[Block]:
    """The modules of these names as blocks."""
    blocks = []
    for name in names:
        layers = inside(model, [name])
        if not layers:
            raise OptionError(f"the block {name!r} has no parameters; name blocks that do.")
        convolutional = [is_convolution(layer) for layer in layers if is_convolution(layer) or isinstance(layer, nn.Linear)]
        blocks.append(Block(layers, model.get_submodule(name), 1 if convolutional and convolutional[-1] else -1))
    if not blocks:
        raise OptionError("blocks must name at least one module, found none.")
    return blocks


def _owners(blocks: list[Block]) -> dict[nn.Parameter, int]:
    """The block of each parameter, from 1; a tied one belongs to the first."""
    owners: dict[nn.Parameter, int] = {}
    for k, block in enumerate(blocks, 1):
        for layer in block.layers:
            for p in layer.parameters(recurse=False):
                owners.setdefault(p, k)
    return owners
