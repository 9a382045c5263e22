"""The registry is made of one list, in which every class says its own name."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import swr.methods
from swr import methods
from swr.methods.all_methods import METHODS

FILES = {
    "naive-scaling": "ratio_scaling",
    "proportional-scaling": "ratio_scaling",
    "spectral-norm": "spectral_penalty",
    "spectral": "spectral_regularisation",
    "lipschitz": "lipschitz_projection",
    "swr-reinit": "swr",
    "shrink-perturb-fresh": "shrink_perturb",
}
"""where the file is not named as the method"""


def test_a_class_says_its_name_and_no_two_have_the_same():
    assert [method.name for method in METHODS] == list(methods.names())
    assert len({method.name for method in METHODS}) == len(METHODS) == 42
    assert all("name" in vars(method) for method in METHODS)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_a_method_is_a_public_name_and_lives_in_the_file_of_its_name(method: type[methods.Method]):
    assert getattr(methods, method.__name__) is method
    assert Path(inspect.getfile(method)).stem == FILES.get(method.name, method.name.replace("-", "_"))


def test_every_method_in_a_file_of_the_package_is_in_the_list():
    folder = Path(swr.methods.__file__).parent
    names = {path.stem for path in folder.glob("*.py")} - {
        "__init__",
        "all_methods",
        "base",
        "cards",
        "composition",
        "registry",
    }
    assert names == {Path(inspect.getfile(method)).stem for method in METHODS}


class Counter(methods.Method):
    """A method of one's own with a state."""

    title = "counter"
    steps = 0

    def step(self) -> None:
        self.steps += 1

    def state(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state(self, state: dict[str, Any]) -> None:
        self.steps = state["steps"]


def test_a_state_of_ones_own_needs_no_underscores():
    model = nn.Linear(2, 2)
    optimizer, method = torch.optim.SGD(model.parameters(), lr=0.1), Counter(model)
    method.attach(optimizer)
    for _ in range(3):
        optimizer.step()
    again = Counter(model)
    again.load_state_dict(method.state_dict())
    assert again.steps == 3


def test_the_former_names_of_the_state_are_an_error_rather_than_a_state_that_is_lost():
    with pytest.raises(TypeError, match=r"Old overrides _state\(\): a method's state is state\(\) and load_state\(state\)\."):
        type("Old", (methods.Method,), {"_state": lambda self: {"steps": 1}})
