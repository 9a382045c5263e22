"""A pull: some weights of a model, drawn back to their anchors after the steps of the optimizer that moves them.

With one optimizer there is one pull over all weights. With several over one model each has its own, so that a weight is
pulled once per step that moved it, however often the others step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.algebra.apply import Scaled
from swr.algebra.plan import ScalePlan
from swr.errors import ModelError, StateError
from swr.hooks import Handle
from swr.norms import frobenius_norms
from swr.scaling import OnDevice, OnHost, log_scalers


class Pull:
    """Some weights, rescaled each ``every``-th step.

    A fused optimizer under a GradScaler calls its hooks on skipped steps too, and only the device knows which they
    were (``optimizer.found_inf``). They are counted there, and the next rescale is that much weaker: with m of n steps
    skipped it pulls with 1 − (1 − λ)^(n − m).

    model, plan: what is rescaled, and how the rest follows.
    every: steps between two rescales.
    """

    def __init__(self, model: nn.Module, plan: ScalePlan, every: int) -> None:
        self._model, self._plan, self.every = model, plan, every
        self.names: tuple[str, ...] = ()
        self.handle: Handle | None = None
        self.lr: list[float] = []
        self.largest_lr: list[float] = []
        self._bound: list[tuple[dict[str, nn.Parameter | None], str, Tensor]] | None = None
        self._waiting = 0  # steps since the last rescale
        self._missed: Tensor | None = None  # of which were skipped
        self._steps = 0
        self._skipped: Tensor | None = None

    def bind(self, names: Sequence[str]) -> None:
        """Find the weights with these names in the model as it is now; wrappers such as FSDP2 replace them."""
        parameters = dict(self._model.named_parameters())
        weights = [parameters[name] for name in names]
        if any(weight.is_meta for weight in weights):
            raise ModelError(
                "the model is still on the meta device, so there is nothing to rescale: materialise it (to_empty(), then "
                "initialise or load its parameters), then attach()."
            )
        pending = {} if self._bound is None else self._pending()
        position = {name: i for i, name in enumerate(self._plan.weights)}
        columns = self._plan.matrix(self._plan.scaled)[:, [position[name] for name in names]]
        rows = {name: row for name, row in zip(self._plan.scaled, columns, strict=True) if row.any()}
        self.names, self.weights = tuple(names), weights
        self.scaled = Scaled(self._model, tuple(rows))
        matrix = torch.stack([rows[name] for name in self.scaled.names]) if rows else torch.zeros(0, len(names)).double()
        suits = OnHost.suits(weights, self.scaled, matrix)
        self.scaling: OnHost | OnDevice = (OnHost if suits else OnDevice)(weights, self.scaled, matrix)
        self.scaling.set_pending([pending.get(name, 0.0) for name in self.scaled.names])
        owners = [self._model.get_submodule(name.rpartition(".")[0])._parameters for name in names]
        keys = [name.rpartition(".")[2] for name in names]
        self._bound = list(zip(owners, keys, weights, strict=True))

    @property
    def stale(self) -> bool:
        """Whether the model has other parameters now than the last :meth:`bind` found."""
        return self._bound is None or any(owner[key] is not weight for owner, key, weight in self._bound)

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

    def set(self, anchors: Tensor, strength: Tensor) -> None:
        """n^init and 1 − (1 − λ)^every of each weight; no anchor (zero or not finite) means no pull."""
        usable = torch.isfinite(anchors) & (anchors > 0)
        self._anchors = torch.where(usable, anchors, 0.0)
        self._strength = torch.where(usable, strength.to(anchors.device), 0.0)
        self.scaling.set_pull(self._anchors, self._strength)

    def norms(self) -> Tensor:
        """‖W_l‖ now, float64."""
        return frobenius_norms(self.weights) if self.weights else torch.zeros(0, dtype=torch.float64)

    def scalers(self) -> Tensor:
        """c_l that a rescale would ask for now, float64."""
        norms, anchors, strength = self.norms(), self._anchors, self._strength
        return log_scalers(norms, (strength * anchors).to(norms.device), (1 - strength).to(norms.device)).exp()

    def step(self, found_inf: Tensor | None = None) -> None:
        """Count a step of the optimizer, and rescale if it is time."""
        self._steps += 1
        self._waiting += 1
        if found_inf is not None:
            missed = (found_inf.detach() > 0).to(torch.float64).reshape(())
            self._missed = missed if self._missed is None else self._missed + missed
            self._skipped = missed if self._skipped is None else self._skipped + missed
        if self._waiting == self.every:
            if self.weights:
                self.scaling.rescale(None if self._missed is None else 1 - self._missed / self.every)
            self._waiting, self._missed = 0, None

    def state(self) -> dict[str, Any]:
        """What the next step depends on, as plain data."""
        return {
            "steps": self._steps - (0 if self._skipped is None else int(self._skipped)),
            "waiting": self._waiting,
            "missed": 0 if self._missed is None else int(self._missed),
            "pending": self._pending(),
            "lr": list(self.lr),
            "largest_lr": list(self.largest_lr),
        }

    def check(self, state: Mapping[str, Any]) -> None:
        """Raise :class:`~swr.StateError` unless the state fits."""
        pending = state["pending"]
        if other := sorted(set(pending) ^ set(self.scaled.names)):
            raise StateError(
                f"the state belongs to another model or another division among optimizers: {other[0]!r} is in only one of "
                f"them ({len(pending)} tensors in the state, {len(self.scaled.names)} here)."
            )
        if self.handle is not None and len(state["lr"]) not in (0, len(self.lr)):
            raise StateError(f"the state knows {len(state['lr'])} parameter groups, the optimizer has {len(self.lr)}.")

    def load(self, state: Mapping[str, Any]) -> None:
        """Continue from :meth:`state`."""
        self.check(state)
        self.scaling.set_pending([state["pending"][name] for name in self.scaled.names])
        self._steps, self._waiting = int(state["steps"]), int(state["waiting"])
        self._skipped, self._missed = None, None
        if state["missed"]:
            self._missed = torch.tensor(float(state["missed"]), dtype=torch.float64, device=self.scaling.device)
        if state["lr"]:
            self.lr, self.largest_lr = list(state["lr"]), list(state["largest_lr"])

    def _pending(self) -> dict[str, float]:
        return dict(zip(self.scaled.names, self.scaling.pending(), strict=True))
