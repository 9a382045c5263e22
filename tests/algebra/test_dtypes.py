"""Inputs of another type than the model's."""

import pytest
import torch
from torch import nn

import swr

CONVOLUTION = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 2))


class Casting(nn.Module):
    """A model that converts its inputs itself."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x.to(self.layer.weight.dtype))


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (nn.Linear(4, 3), torch.zeros(2, 4, dtype=torch.float64)),
        (nn.Linear(4, 3).double(), torch.zeros(2, 4)),
        (nn.Linear(4, 3), torch.zeros(2, 4, dtype=torch.long)),
        (CONVOLUTION, torch.zeros(2, 3, 6, 6, dtype=torch.float64)),
    ],
)
def test_inputs_that_the_model_cannot_take_are_refused(model, inputs):
    with pytest.raises(swr.InputsError) as found:
        swr.analyze(model, inputs)
    assert "\n" not in str(found.value)
    with pytest.raises(RuntimeError):
        model(inputs)


@pytest.mark.parametrize("dtype", [torch.float64, torch.long, torch.float16])
def test_a_model_that_converts_them_is_analysed(dtype):
    assert swr.analyze(Casting(), torch.zeros(2, 4, dtype=dtype)).free == ("layer.weight",)


def test_under_autocast_the_types_may_differ():
    with torch.autocast("cpu"):
        assert swr.analyze(nn.Linear(4, 3), torch.zeros(2, 4, dtype=torch.bfloat16)).free == ("weight",)
