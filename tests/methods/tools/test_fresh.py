"""Fresh values are drawn by the layers' own initialisers and leave the layers as they are."""

from math import sqrt

import pytest
import torch
from torch import nn

from swr.errors import OptionError
from swr.methods.tools.fresh import fresh_values, inside

from ..methods_table import changed
from ..reset_helpers import mlp


class TestFreshValues:
    def test_are_drawn_with_the_layers_own_initialiser_and_leave_the_layer_and_its_statistics_alone(self):
        layer, norm = nn.Linear(400, 3), nn.BatchNorm1d(3)
        norm(torch.randn(5, 3))
        before = {**layer.state_dict(), **{f"n.{k}": v.clone() for k, v in norm.state_dict().items()}}
        before = {name: value.clone() for name, value in before.items()}
        fresh = fresh_values([layer, norm], torch.Generator().manual_seed(0))
        after = {**layer.state_dict(), **{f"n.{k}": v for k, v in norm.state_dict().items()}}
        assert not changed(before, after)
        assert not torch.equal(fresh[layer.weight], layer.weight)
        assert fresh[layer.weight].abs().max() <= 1 / sqrt(400)
        assert fresh[layer.weight].std() == pytest.approx(1 / sqrt(1200), rel=0.1)
        assert torch.equal(fresh[norm.weight], torch.ones(3))

    def test_restore_the_layer_when_the_initialiser_fails(self):
        def failing(layer: nn.Module) -> None:
            nn.init.zeros_(layer.weight)
            raise RuntimeError("no")

        layer = nn.Linear(2, 2)
        before = layer.weight.detach().clone()
        with pytest.raises(RuntimeError, match="no"):
            fresh_values([layer], torch.Generator(), failing)
        assert torch.equal(layer.weight, before)

    def test_names_that_are_not_there_are_said(self):
        with pytest.raises(OptionError, match=r"found 'head'; the model has 0, 1, 2"):
            inside(mlp(2, 2, 2), ["head"])
        with pytest.raises(OptionError, match="a list of names, found '0'"):
            inside(mlp(2, 2, 2), "0")
