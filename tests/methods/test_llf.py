"""LLF keeps the early layers and re-initialises the later ones."""

import pytest
import torch
from torch import nn

from swr import methods
from swr.errors import OptionError

from .methods_table import changed
from .reset_helpers import mlp, trained


class TestLaterLayerForgetting:
    def test_example_keeps_the_early_layers_and_re_initialises_the_later(self):
        torch.manual_seed(0)
        model = mlp(3, 4, 4, 2)
        initial = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        method = methods.LaterLayerForgetting(model, first=2)
        method.attach(trained(model))
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        method.new_task()
        assert changed(before, model.state_dict()) == {"4.weight"}
        assert not torch.equal(model[4].weight, initial["4.weight"])
        assert not (model[4].weight == before["4.weight"]).any()

    def test_a_name_stands_for_itself_and_all_that_follow(self):
        model = nn.Sequential(mlp(2, 2, 2), nn.BatchNorm1d(2), mlp(2, 2, 2))
        chosen = {"0": ["0.0", "0.2", "2.0", "2.2"], "1": ["2.0", "2.2"], "2": ["2.0", "2.2"], "2.2": ["2.2"]}
        for name, layers in chosen.items():
            found = methods.LaterLayerForgetting(model, first=name).layers
            assert [layer.name for layer in found] == [f"{layer}.weight" for layer in layers]

    def test_by_default_forgets_the_last_quarter(self):
        sizes = {3: 1, 4: 1, 5: 2, 16: 4, 21: 6}  # 21: a ResNet-18, whose layer4 and fc have 6
        for layers, forgotten in sizes.items():
            assert len(methods.LaterLayerForgetting(mlp(*[2] * (layers + 1))).layers) == forgotten

    def test_what_cannot_be_is_said(self):
        with pytest.raises(OptionError, match="at most 2"):
            methods.LaterLayerForgetting(mlp(2, 2, 2), first=3)
        with pytest.raises(OptionError, match="no module 'layer4'"):
            methods.LaterLayerForgetting(mlp(2, 2, 2), first="layer4")
