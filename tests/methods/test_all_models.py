"""Every method on the paper's four networks in their real sizes: train, a new task, train again."""

import inspect
import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swr import methods
from swr.bench.data import load
from swr.bench.experiments import RunConfig, models
from swr.bench.training import Training

from .methods_table import BY_NAME, CASES, Case

Epoch = list[tuple[Tensor, Tensor]]


def digits(size: int, channels: int, count: int, batch: int) -> Epoch:
    """An epoch of digits, enlarged."""
    split = load("digits").train
    images = F.interpolate(split.images[:count].float() / 16 - 0.5, size=(size, size)).expand(-1, channels, -1, -1)
    return list(zip(images.split(batch), split.labels[:count].split(batch), strict=True))


SIZES: dict[str, tuple[tuple[int, int, int], int, Callable[[], Epoch]]] = {
    "mlp": ((1, 8, 8), 10, lambda: digits(8, 1, 1437, 64)),
    "cnn": ((3, 32, 32), 10, lambda: digits(32, 3, 96, 32)),
    "cnnbn": ((3, 32, 32), 10, lambda: digits(32, 3, 96, 32)),
    "vgg16": ((3, 64, 64), 200, lambda: digits(64, 3, 2, 2)),
}
BOUNDED = {("fire", "vgg16"): {"iterations": 1}}
"""ten products of 4096 x 4096 matrices take a minute"""


@pytest.fixture(scope="module", params=SIZES)
def network(request: pytest.FixtureRequest) -> tuple[str, nn.Module, Epoch]:
    """A network, drawn once; each test returns it to where it began."""
    shape, classes, epoch = SIZES[request.param]
    torch.manual_seed(0)
    return request.param, models.build(request.param, shape, classes), epoch()


@pytest.mark.parametrize("case", CASES, ids=BY_NAME)
def test_trains_before_and_after_a_new_task(case: Case, network: tuple[str, nn.Module, Epoch]):
    name, model, epoch = network
    initial = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    method = methods.build(case.name, model, epoch[0][0], seed=0, **{**case.hyper, **BOUNDED.get((case.name, name), {})})
    method.attach(optimizer)
    try:
        losses = [train(model, optimizer, method, *batch) for batch in epoch]
        method.new_task(epoch, F.cross_entropy)
        if name != "vgg16":  # a step of 40.7 million parameters is enough; the narrow one of the common tests trains on
            losses += [train(model, optimizer, method, *batch) for batch in epoch]
        model.eval()
        with torch.inference_mode():
            assert torch.isfinite(model(epoch[0][0])).all()
        assert all(map(math.isfinite, losses))
        assert all(torch.isfinite(p).all() for p in model.parameters())
        if name == "mlp":
            half = len(epoch)
            assert sum(losses[half - 5 : half]) < sum(losses[:5])
    finally:
        method.close()
        model.load_state_dict(initial)


def needs_nothing(name: str) -> bool:
    signature = inspect.signature(methods.find(name))
    options = [p for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
    return all(p.default is not p.empty for p in options) and not name.startswith("swr")  # SWR wants one λ or two


@pytest.mark.parametrize("name", list(filter(needs_nothing, methods.names())))
def test_the_defaults_learn_the_digits_over_two_stages_of_the_bench(name: str):
    config = RunConfig("warm-start", "digits-mlp", name, scenario="warm-start", epochs=(3, 3), batch_size=32)
    training = Training(config, load("digits"))
    epochs = [training.epoch() for _ in range(6)]
    assert all(math.isfinite(epoch.train_loss) for epoch in epochs)
    assert epochs[-1].train_accuracy > 0.6


def train(model: nn.Module, optimizer: torch.optim.Optimizer, method: methods.Method, inputs: Tensor, labels: Tensor) -> float:
    model.train()
    loss = F.cross_entropy(model(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
