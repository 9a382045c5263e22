"""One network of an agent, with its optimizer and its method."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from swr import methods
from swr.bench.experiments import RunConfig
from swr.bench.experiments.seeds import seed_of


class Learner:
    """A network that goes down the gradient of a loss; a method acts around each step through the optimizer.

    Args:
        name: Of the network, among those of its agent.
        model: The network.
        config: Names the method and its hyper-parameters, the learning rate, and where gradients are clipped.
        example: A batch of inputs.
    """

    def __init__(self, name: str, model: nn.Module, config: RunConfig, example: Tensor) -> None:
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=config.lr, fused=True)
        seed = seed_of(config.seed, f"method {name}")
        self.method = methods.build(config.method, model, example, seed=seed, **dict(config.hyper))
        self.method.attach(self.optimizer)
        self._clip = config.clip
        self._parameters = list(model.parameters())

    def descend(self, loss: Tensor) -> None:
        """One step of the optimizer; a penalty's gradient is added after the loss's was clipped."""
        for p in self._parameters:
            p.grad = None
        loss.backward()
        if self._clip is not None:
            clip_grad_norm_(self._parameters, self._clip, foreach=True)
        self.optimizer.step()

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next task depends on."""
        return {
            "model": dict(self.model.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "method": self.method.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue exactly where :meth:`state_dict` was taken."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.method.load_state_dict(state["method"])
