"""NaP, normalise-and-project: hold every layer's weights at their initial norm (Lyle et al., 2024)."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from swr.checks import at_least_zero, choice
from swr.errors import OptionError
from swr.methods.base import restore
from swr.methods.bases.periodic import Periodic
from swr.methods.tools.layers import affine_layers, normalisations, wide
from swr.norms import frobenius_norms

Gains = Literal["decay", "project"]


def joint_factor(gain: Tensor, shift: Tensor | None) -> Tensor:
    """√d / ‖(γ, β)‖, which brings gain and shift together to the norm √d that they begin with; 1 where they are zero.

    >>> joint_factor(torch.tensor([2.0, 2.0]), torch.tensor([1.0, 0.0]))
    tensor(0.4714)
    """
    both = [wide(gain)] if shift is None else [wide(gain), wide(shift)]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(both)))
    return torch.where(norm > 0, gain.numel() ** 0.5 / norm, 1.0)


class NaP(Periodic):
    """Project each weight tensor to its initial Frobenius norm.

        W_l <- ρ_l W_l / ‖W_l‖,   ρ_l = ‖W_l‖ at the start; a tensor that was or is zero stays

    In front of a normalisation layer this leaves the function as it is and fixes the effective learning rate. "Normalise",
    the other half of the method, belongs to the network: :func:`swr.methods.normalised` makes one with a normalisation layer
    before every nonlinearity. Without, the projection changes the function. And the learning rate needs a schedule of its
    own, since weights that grow no longer lower it.

    >>> layer = nn.Linear(2, 1, bias=False)
    >>> layer.weight.data = torch.tensor([[1.5, 2.0]])
    >>> method = NaP(layer)
    >>> layer.weight.data.mul_(2)
    tensor([[3., 4.]])
    >>> method.step()
    >>> layer.weight.data
    tensor([[1.5000, 2.0000]])

    When:
        After every n-th step of the optimizer.

    Touches:
        Weights of convolutions and fully connected layers; gains and shifts of normalisation layers only as ``gains`` says.
        Biases, running statistics and the optimizer's state stay.

    Keeps:
        ρ_l, the number of steps.

    Args:
        every: n; infinity for never.
        head: False leaves the last layer free; projecting it fixes the scale of the outputs.
        gains: "decay": (γ, β) move the part ``decay`` of their way to (1, 0) each time; "project": they are scaled together to
            the norm √d, which fits networks whose activations are homogeneous.
        decay: in [0, 1], independent of the learning rate; 0 leaves gains and shifts alone.

    References:
        C. Lyle et al., 2024, "Normalization and Effective Learning Rates in Reinforcement Learning", arXiv 2407.01800.
    """

    name = "nap"
    title = "NaP"
    owns = frozenset({"the norms of the weights"})

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        every: float = 1,
        head: bool = True,
        gains: Gains = "decay",
        decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        super().__init__(model, example_inputs, every=every, seed=seed)
        choice(gains, "gains", get_args(Gains))
        if at_least_zero(decay, "decay") > 1 or (decay and gains == "project"):
            raise OptionError(f'decay must be a number between 0 and 1, and 0 with gains="project", found {decay!r}.')
        self.gains, self.decay = gains, float(decay)
        layers = affine_layers(model, head=head)
        self._weights: list[Tensor] = [layer.weight for layer in layers]
        self._normalising = normalisations(model)
        radii = frobenius_norms([weight.detach() for weight in self._weights]) if layers else torch.zeros(0)
        self._radii = {layer.name: radius.clone() for layer, radius in zip(layers, radii, strict=True)}

    @torch.no_grad()
    def act(self) -> None:
        """Project."""
        if self._weights:
            norms = frobenius_norms(self._weights)
            radii = torch.stack(list(self._radii.values())).to(norms.device)
            factors = torch.where((norms > 0) & (radii > 0), radii / norms, 1.0)
            torch._foreach_mul_(self._weights, list(factors.unbind()))
        if self.gains == "project":
            for layer in self._normalising:
                factor = joint_factor(layer.gain, layer.shift)
                layer.gain.mul_(factor)
                if layer.shift is not None:
                    layer.shift.mul_(factor)
        elif self.decay and self._normalising:
            gains: list[Tensor] = [layer.gain for layer in self._normalising]
            shifts = [layer.shift for layer in self._normalising if layer.shift is not None]
            torch._foreach_mul_([*gains, *shifts], 1 - self.decay)
            torch._foreach_add_(gains, self.decay)

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {**super().state(), "radii": dict(self._radii)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        restore(self._radii, state["radii"])
        super().load_state(state)
