"""The weights that one optimizer moves, pulled back to their anchors after its steps.

With one optimizer there is one group over all weights. With several over one model each has its own, so that a weight is
pulled once per step that moved it, however often the others step. A group is the only owner of the part of earlier rescales
that rounding has not applied yet; where its weights are pulled, and how strongly, it is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.algebra.blocks import parameter_of, tensor_of
from swr.algebra.plan import ScalePlan
from swr.errors import ModelError, StateError
from swr.hooks import Handle
from swr.norms import frobenius_norms
from swr.rescaling.kernels import Kernel, Pull, kernel_for
from swr.rescaling.tensors import ScaledTensors
from swr.sharding import local


class WeightGroup:
    """Some weights, rescaled after each ``every``-th step of their optimizer.

    A fused optimizer under a GradScaler calls its hooks on skipped steps too, and only the device knows which they
    were (``optimizer.found_inf``). They are counted there, and the next rescale is that much weaker: with m of n steps
    skipped it pulls with 1 − (1 − λ)^(n − m).

    Args:
        every: steps between two rescales.
    """

    def __init__(self, every: int) -> None:
        self.every = every
        self.names: tuple[str, ...] = ()
        self.weights: list[Tensor] = []  # the parameters, one for each name
        self._tensors: list[Tensor] = []  # the weights: parameters, or views of their blocks
        self._cut: list[Tensor] = []  # the parameters that have blocks
        self.handle: Handle | None = None
        self.lr: list[float] = []
        self.largest_lr: list[float] = []
        self._scaled: tuple[str, ...] = ()
        self._kernel: Kernel | None = None
        self._pull = Pull(torch.zeros(0, dtype=torch.float64), torch.zeros(0, dtype=torch.float64))
        self._pending: Any = []  # as the kernel keeps it
        self._waiting = 0  # steps since the last rescale
        self._missed: Tensor | None = None  # of which were skipped
        self._steps = 0
        self._skipped: Tensor | None = None

    @torch.no_grad()
    def bind(self, model: nn.Module, plan: ScalePlan, names: Sequence[str]) -> None:
        """Take over the weights with these names, as the model has them now; what is pending stays with its tensor.

        Args:
            model: what is rescaled.
            plan: how the rest follows.
            names: of the weights.
        """
        parameters: dict[str, Tensor] = dict(model.named_parameters())
        weights = [parameters[parameter_of(name)] for name in names]
        if any(weight.is_meta for weight in weights):
            raise ModelError(
                "the model is still on the meta device, so there is nothing to rescale: materialise it (to_empty(), then "
                "initialise or load its parameters), then attach()."
            )
        pending = self._pending_by_name()
        position = {name: i for i, name in enumerate(plan.weights)}
        rows = plan.matrix(plan.scaled)[:, [position[name] for name in names]]
        scaled = [name for name, row in zip(plan.scaled, rows.tolist(), strict=True) if any(row)]
        tensors = ScaledTensors(model, scaled)
        place = {name: i for i, name in enumerate(plan.scaled)}
        matrix = rows[[place[name] for name in tensors.names]] if scaled else torch.zeros(0, len(names), dtype=torch.float64)
        self.names, self.weights, self._scaled = tuple(names), weights, tensors.names
        self._tensors = [tensor_of(name, parameters) for name in names]
        self._cut = [weight for name, weight in zip(names, weights, strict=True) if name not in parameters]
        self._bound, self._places = (model, plan), self._memory()
        self._kernel = kernel_for(self._tensors, tensors, matrix)
        self._pending = self._kernel.pending([pending.get(name, 0.0) for name in self._scaled])

    @property
    def optimizer(self) -> Optimizer | None:
        """The optimizer it is attached to."""
        return self.handle.optimizer if self.handle is not None and self.handle.active else None

    def watch(self, optimizer: Optimizer) -> None:
        """Learn the learning rates of parameter groups that were not there before."""
        lr = [float(group["lr"]) for group in optimizer.param_groups]
        known = len(self.lr) if len(self.lr) <= len(lr) else 0
        self.lr = self.lr[:known] + lr[known:]
        self.largest_lr = self.largest_lr[:known] + lr[known:]

    def set(self, towards: Tensor, strength: Tensor, *, down_only: bool) -> None:
        """Where each weight is pulled, and 1 − (1 − λ)^every; where that norm is zero or not finite there is no pull.

        Args:
            towards: a norm for each weight, float64.
            strength: of one rescale, float64.
            down_only: whether weights below that norm are left alone.
        """
        device = torch.device("cpu") if self._kernel is None else self._kernel.device
        self._pull = Pull.usable(towards.to(device), strength, down_only=down_only)

    @property
    def strength(self) -> Tensor:
        """1 − (1 − λ)^every, float64; 0 for a weight that has no anchor."""
        return self._pull.strength

    def norms(self) -> Tensor:
        """‖W_l‖ now, float64."""
        self._find_blocks()
        return frobenius_norms(self._tensors) if self._tensors else torch.zeros(0, dtype=torch.float64)

    def scalers(self) -> Tensor:
        """c_l that a rescale would ask for now, float64."""
        return self._pull.log_scalers(self.norms()).exp()

    def step(self, found_inf: Tensor | None = None) -> None:
        """Count a step of the optimizer, and rescale if it is time."""
        self._steps += 1
        self._waiting += 1
        if found_inf is not None:
            missed = (found_inf.detach() > 0).to(torch.float64).reshape(())
            self._missed = missed if self._missed is None else self._missed + missed
            self._skipped = missed if self._skipped is None else self._skipped + missed
        if self._waiting == self.every:
            self._find_blocks()
            if self.weights and self._kernel is not None:
                share = None if self._missed is None else 1 - self._missed / self.every
                self._pending = self._kernel.rescale(self._pull, self._pending, share)
            self._waiting, self._missed = 0, None

    @property
    def begun(self) -> bool:
        """Whether a step was counted."""
        return self._steps > 0

    def state(self) -> dict[str, Any]:
        """What the next step depends on, but for the anchors, as plain data."""
        return {
            "steps": self._steps - (0 if self._skipped is None else int(self._skipped)),
            "waiting": self._waiting,
            "missed": 0 if self._missed is None else int(self._missed),
            "pending": self._pending_by_name(),
            "lr": list(self.lr),
            "largest_lr": list(self.largest_lr),
        }

    def check(self, state: Mapping[str, Any]) -> None:
        """Raise :class:`~swr.StateError` unless the state fits."""
        pending = state["pending"]
        if other := sorted(set(pending) ^ set(self._scaled)):
            raise StateError(
                f"the state belongs to another model, another division among optimizers or other frozen parameters: "
                f"{other[0]!r} is in only one of them ({len(pending)} tensors in the state, {len(self._scaled)} here)."
            )
        if self.handle is not None and len(state["lr"]) not in (0, len(self.lr)):
            raise StateError(f"the state knows {len(state['lr'])} parameter groups, the optimizer has {len(self.lr)}.")

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state`."""
        self.check(state)
        assert self._kernel is not None  # bound before any state is loaded
        self._pending = self._kernel.pending([state["pending"][name] for name in self._scaled])
        self._steps, self._waiting = int(state["steps"]), int(state["waiting"])
        self._skipped, self._missed = None, None
        if state["missed"]:
            self._missed = torch.tensor(float(state["missed"]), dtype=torch.float64, device=self._kernel.device)
        if state["lr"]:
            self.lr, self.largest_lr = list(state["lr"]), list(state["largest_lr"])

    def _find_blocks(self) -> None:
        """Bind again if the memory that blocks are views of was replaced (``parameter.data = ...``)."""
        if self._cut and self._memory() != self._places:
            self.bind(*self._bound, self.names)

    def _memory(self) -> list[int]:
        return [local(weight).data_ptr() for weight in self._cut]

    def _pending_by_name(self) -> dict[str, float]:
        logs = self._pending.tolist() if isinstance(self._pending, Tensor) else self._pending
        return dict(zip(self._scaled, logs, strict=True))
