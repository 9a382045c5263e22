"""What every projection must do, whatever the layer, the layout and the precision."""

import copy
from math import inf

import pytest
import torch
from torch import nn

from swr import methods
from swr.errors import OptionError

from .methods_table import MODELS, changed
from .projection_helpers import CONVOLUTIONS, close, double, grow

ROWS = {"max-norm": {"bound": 0.1}, "weight-normalisation": {"every": 1, "head": True}}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_rows_are_the_weights_that_enter_one_output(name: str, kind: str):
    layer = CONVOLUTIONS[kind][0]().double()
    before = layer.weight.detach().clone()
    methods.build(name, layer, **ROWS[name]).step()
    target, groups = ROWS[name].get("bound", 1.0), layer.groups
    for output in range(layer.out_channels):
        if layer.transposed:
            inputs, outputs = layer.in_channels // groups, layer.out_channels // groups
            group = output // outputs
            row = (slice(group * inputs, (group + 1) * inputs), output % outputs)
        else:
            row = output
        close(layer.weight[row], target * before[row] / before[row].norm(), 1e-10, 1e-12)


SETTINGS = {
    "weight-rescaling": {},
    "weight-clipping": {"bound": 0.5},
    "nap": {"gains": "project"},
    "lipschitz": {"bound": 0.4, "p": inf},
    "max-norm": {"bound": 0.2},
    "weight-normalisation": {"every": 1},
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_second_projection_finds_nothing_to_do(name: str, layout: torch.memory_format):
    model = double("cnnbn").to(memory_format=layout)
    method = methods.build(name, model, **SETTINGS[name])
    grow(model)
    before = copy.deepcopy(model.state_dict())
    method.step()
    once = copy.deepcopy(model.state_dict())
    assert changed(before, once)
    method.step()
    for key, tensor in model.state_dict().items():
        torch.testing.assert_close(tensor, once[key], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [*SETTINGS, "spectral-normalisation"])
def test_a_16_bit_network_is_projected_too(name: str):
    model = MODELS["mlp"][0]().to(torch.bfloat16)
    method = methods.build(name, model, **SETTINGS.get(name, {"bound": 0.5}))
    grow(model)
    before = copy.deepcopy(model.state_dict())
    method.step()
    assert changed(before, model.state_dict())
    assert all(p.dtype is torch.bfloat16 and p.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("name", [*SETTINGS, "spectral-normalisation"])
def test_frozen_weights_stay(name: str):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))
    for layer in (model[0], model[1]):
        for p in layer.parameters():
            p.requires_grad_(False)
    method = methods.build(name, model, **SETTINGS.get(name, {"bound": 0.5}))
    grow(model)
    before = copy.deepcopy(model.state_dict())
    method.step()
    assert changed(before, model.state_dict()) <= {"2.weight", "2.bias"}


@pytest.mark.parametrize(
    ("name", "option"),
    [("weight-clipping", "bound"), ("max-norm", "bound"), ("lipschitz", "bound"), ("spectral-normalisation", "bound"),
     ("nap", "every"), ("weight-rescaling", "every"), ("weight-normalisation", "every"), ("nap", "decay"), ("lipschitz", "p")],
)  # fmt: skip
@pytest.mark.parametrize("value", [-1, float("nan"), True, "a"])
def test_options_out_of_range_are_refused(name: str, option: str, value: object):
    with pytest.raises(OptionError, match=f"{option}.* must be .*found {value!r}"):
        methods.build(name, nn.Linear(2, 2), **{option: value})


def test_choices_are_checked():
    with pytest.raises(OptionError, match="per must be 'layer' or 'channel', found 'row'"):
        methods.WeightRescaling(nn.Linear(2, 2), per="row")
    with pytest.raises(OptionError, match='0 with gains="project"'):
        methods.NaP(nn.Linear(2, 2), gains="project", decay=0.1)
    with pytest.raises(OptionError, match="every must be a number of steps"):
        methods.NaP(nn.Linear(2, 2), every=1.5)
