"""Continual Backprop: replace a few of the least useful units as training goes on (Dohare et al., 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, inf
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from swr.checks import fraction, whole
from swr.methods.base import restore
from swr.methods.bases.unit_method import UnitMethod, mean_magnitude
from swr.methods.tools.fresh import Initialiser, own_initialiser
from swr.methods.tools.optimizer_state import Policy
from swr.methods.tools.recycling import OutgoingMagnitude
from swr.methods.tools.tuning import along


class ContinualBackprop(UnitMethod):
    """Replace, now and then, the unit of a layer that contributes least, as long as it is old enough to be judged.

        age_i += 1,   u_i <- d u_i + (1 - d) mean |h_i| mean_k |W_out[k, i]|
        E = {i : age_i > m},   c += ρ |E|,   n = ⌊c⌋,   c -= n
        the n units of E with the smallest u_i / (1 - d^age_i):   W_in fresh,  b, W_out, u, age <- 0

    >>> method = ContinualBackprop(model, x, rate=1e-4)
    >>> handle = method.attach(optimizer)

    When:
        After every step, with the activations of that step's batch; a step without a training pass counts for nothing.

    Touches:
        Units of every layer whose incoming and outgoing weights are all known (``method.units.describe()``); entries of a batch
        normalisation after the layer are reset too. How many units are mature is known without asking the device.

    Differences:
        The authors' code, gnt.py, is followed, with ρ |E| as there (their convolutional variants take ρ times the width), and
        with a decaying utility that is cleared with the unit (their res_gnt.py sums over the unit's life). Where a replaced
        unit feeds a replaced unit of the next layer, the weight between them is zero here, so that every replaced unit starts
        without outgoing weights; their code goes layer by layer and leaves it fresh. Mean or sum over k only scales a layer's
        utilities. The compensation of the next bias, which the arXiv version describes, adds zero in their code and is left
        out.

    Keeps:
        Utility and age of every unit, the fraction c of a unit that each layer is owed, when its young units mature.

    Args:
        rate: ρ, the part of the mature units that is replaced at each step; with 0 nothing is done. 1e-6 to 1e-4 online, 3e-4
            and 1e-5 with batches in the paper.
        maturity: m, steps; 100 in most of the paper, 1000 for its ResNet.
        decay: d.
        initialise: re-initialises one layer; by default its own ``reset_parameters()``.
        optimizer_state: what the optimizer forgets of replaced units, a policy of :mod:`swr.methods.tools.optimizer_state`.

    References:
        S. Dohare et al., 2024, "Loss of plasticity in deep continual learning", Nature 632.
    """

    name = "continual-backprop"
    title = "continual backprop"
    tuning = along("rate", 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
    symbols: ClassVar[Mapping[str, str]] = {"rate": "ρ", "maturity": "m", "decay": "d"}

    def __init__(
        self,
        model: nn.Module,
        example_inputs: Any = None,
        *,
        rate: float = 1e-4,
        maturity: int = 100,
        decay: float = 0.99,
        initialise: Initialiser = own_initialiser,
        optimizer_state: Policy = "clear_moments",
        seed: int = 0,
    ) -> None:
        self.rate = fraction(rate, "rate ρ")
        self.maturity = whole(maturity, "maturity m", 0)
        self.decay = fraction(decay, "decay d")
        super().__init__(model, example_inputs, initialise=initialise, optimizer_state=optimizer_state, seed=seed)
        layers = self.units.layers
        device = model.get_parameter(layers[0].weight).device
        self.utility = torch.zeros(self.total, device=device)
        self.age = torch.zeros(self.total, dtype=torch.long, device=device)
        self.owed = [0.0] * len(layers)
        self._steps = 0
        self._mature = [0] * len(layers)
        self._young = [[[self.maturity + 1, layer.size]] for layer in layers]
        self._outgoing = [OutgoingMagnitude(model, layer) for layer in layers]
        self._seen: list[Tensor | None] = [None] * len(layers)
        self._passes = 0

    def watching(self) -> bool:
        """At every step, unless nothing is ever replaced."""
        return self.rate > 0

    def see(self, layer: int, activation: Tensor) -> None:
        """Add up |h| of the passes before a step, if there are several."""
        found = mean_magnitude(activation, self.units.layers[layer].site.nonnegative)
        before = self._seen[layer]
        self._seen[layer] = found if before is None else before + found
        self._passes += layer == 0

    @torch.no_grad()
    def step(self) -> None:
        """Judge all units, and replace those that are due."""
        if self.blind(any(seen is None for seen in self._seen)):
            return
        contribution = torch.cat([seen * size() for seen, size in zip(self._seen, self._outgoing, strict=True)])  # type: ignore[operator]
        self._seen, passes, self._passes = [None] * len(self._seen), self._passes, 0
        if self.utility.device != contribution.device:
            self.utility, self.age = self.utility.to(contribution.device), self.age.to(contribution.device)
        self.utility.mul_(self.decay).add_(contribution, alpha=(1 - self.decay) / max(passes, 1))
        self.age += 1
        self._steps += 1
        self._replace([self._due(layer) for layer in range(len(self.owed))])

    def _due(self, layer: int) -> int:
        """How many units of a layer are to be replaced now; only counts are needed, since every replaced unit was mature."""
        young = self._young[layer]
        while young and young[0][0] <= self._steps:
            self._mature[layer] += young.pop(0)[1]
        self.owed[layer] += self.rate * self._mature[layer]
        due = floor(self.owed[layer])
        self.owed[layer] -= due
        if due:
            self._mature[layer] -= due
            young.append([self._steps + self.maturity + 1, due])
        return due

    def _replace(self, due: list[int]) -> None:
        if not any(due):
            return
        ages, utilities = self.split(self.age), self.split(self.utility)
        chosen = []
        for layer, count in enumerate(due):
            if count:
                corrected = utilities[layer] / (1 - self.decay ** ages[layer].float()) if self.decay < 1 else utilities[layer]
                judged = corrected.masked_fill(ages[layer] <= self.maturity, inf)
                index = judged.topk(count, largest=False).indices
                chosen.append((layer, index))
        self.recycle(chosen)
        for layer, index in chosen:
            utilities[layer].index_fill_(0, index, 0.0)
            ages[layer].index_fill_(0, index, 0)

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {
            **super().state(),
            "utility": self.utility.clone(),
            "age": self.age.clone(),
            "owed": list(self.owed),
            "steps": self._steps,
            "mature": list(self._mature),
            "young": [[list(pair) for pair in pairs] for pairs in self._young],
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        super().load_state(state)
        restore({"utility": self.utility, "age": self.age}, {"utility": state["utility"], "age": state["age"]})
        self.owed, self._mature = list(state["owed"]), list(state["mature"])
        self._young = [[list(pair) for pair in pairs] for pairs in state["young"]]
        self._steps = int(state["steps"])
        self._seen, self._passes = [None] * len(self._seen), 0
