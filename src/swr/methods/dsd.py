"""DSD, dense-sparse-dense: prune the small weights, train without them, bring them back (Han et al., 2017)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.checks import fraction
from swr.errors import ModelError
from swr.methods.base import Batches, LossFunction, Method, restore
from swr.methods.tools.layers import affine_layers
from swr.methods.tools.optimizer_state import Policy, check_policy, forget
from swr.methods.tools.tuning import along


def largest(weight: Tensor, sparsity: float) -> Tensor:
    """A mask that leaves out the ⌊s·n⌋ entries of smallest magnitude; of equal ones just as many as needed.

    >>> largest(torch.tensor([0.1, -0.5, 0.3, -0.05]), 0.5)
    tensor([False,  True,  True, False])
    """
    count = int(sparsity * weight.numel() + 1e-9)
    flat = torch.ones(weight.numel(), dtype=torch.bool, device=weight.device)
    flat[weight.abs().flatten().topk(count, largest=False).indices] = False
    return torch.empty_like(weight, dtype=torch.bool).copy_(flat.reshape(weight.shape))


class DSD(Method):
    """Train dense, then without the smallest weights, then dense again.

        D   train
        S   M = |W| above its s-quantile, layer by layer;   W <- M ⊙ W   now and after every step
        D   the mask goes; pruned weights start from 0

    >>> method = DSD(model, sparsity=0.3)
    >>> handle = method.attach(optimizer)
    >>> method.new_task()  # from dense to sparse
    >>> method.new_task()  # and back

    When:
        Each new task begins the next phase: D, S, D, and again S, D, so that a long stream is not left with plain training. In
        S the gradients of pruned entries are cleared before every step, the entries after it.

    Touches:
        Weights of convolutions and fully connected layers. What the optimizer knows of pruned entries is cleared when they go
        and when they return, otherwise old moments would make them jump. Biases, gains, shifts and running statistics are not
        pruned. The paper's ten times smaller learning rate in the last phase is the loop's to set.

    Keeps:
        In S the mask.

    Args:
        sparsity: s in [0, 1]; with 0 nothing is done.
        optimizer_state: what the optimizer forgets of pruned entries, a policy of :mod:`swr.methods.tools.optimizer_state`.

    References:
        S. Han et al., 2017, "DSD: Dense-Sparse-Dense Training for Deep Neural Networks", ICLR. The authors published models but
        no code.
    """

    name = "dsd"
    title = "DSD"
    tuning = along("sparsity", 0.25, 0.3, 0.35, 0.4, 0.5)
    symbols = {"sparsity": "s"}  # noqa: RUF012

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        sparsity: float = 0.3,
        optimizer_state: Policy = "clear_moments",
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.sparsity = fraction(sparsity, "sparsity s")
        self.optimizer_state = check_policy(optimizer_state)
        self._weights: dict[str, Tensor] = {layer.name: layer.weight for layer in affine_layers(model)}
        if not self._weights:
            raise ModelError("the model has no convolution or fully connected layer to prune.")
        self._masks: dict[str, Tensor] = {}

    @property
    def sparse(self) -> bool:
        """Whether the network is in its sparse phase."""
        return bool(self._masks)

    @torch.no_grad()
    def before_step(self, optimizer: Optimizer | None = None) -> None:
        """∇ <- M ⊙ ∇, so that the optimizer does not remember pruned entries."""
        pairs = [(self._weights[name].grad, mask) for name, mask in self._masks.items()]
        found = [(gradient, mask) for gradient, mask in pairs if gradient is not None]
        if found:
            torch._foreach_mul_([gradient for gradient, _ in found], [mask for _, mask in found])

    @torch.no_grad()
    def step(self) -> None:
        """W <- M ⊙ W."""
        if self._masks:
            torch._foreach_mul_(list(self._weights.values()), list(self._masks.values()))

    @torch.no_grad()
    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """The next phase."""
        if not self.sparsity:
            return
        begins = not self.sparse
        if begins:
            self._masks = {name: largest(weight, self.sparsity) for name, weight in self._weights.items()}
            self.step()
        for name, mask in self._masks.items():
            forget(self.optimizer, self._weights[name], ~mask, self.optimizer_state)
        if not begins:
            self._masks = {}

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"masks": dict(self._masks)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        masks = {name: torch.empty_like(w, dtype=torch.bool) for name, w in self._weights.items()} if state["masks"] else {}
        restore(masks, state["masks"])
        self._masks = masks
