"""SWR in the protocol: λ_f and λ_c go where they belong, re-init follows the learning rate."""

import pytest
import torch
from torch import nn

import swr
from nets import confirmed
from swr import methods
from swr.errors import OptionError

from .methods_table import Loop, changed


def grown(model: nn.Module) -> None:
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.5)


def test_lambda_of_the_features_leaves_the_classifier_alone_after_batch_normalisation():
    loop = Loop("cnnbn", "swr", {"features": 0.1, "classifier": 0.0}, attach=False)
    confirmed(loop.method.rescaler)
    grown(loop.model)
    before = loop.tensors()
    loop.method.step()
    moved = changed(before, loop.tensors())
    assert {"0.weight", "1.weight", "4.weight"} <= moved
    assert "9.weight" not in moved
    assert "11.weight" not in moved


def test_lambda_of_the_classifier_leaves_the_features_alone():
    loop = Loop("cnnbn", "swr", {"features": 0.0, "classifier": 0.1}, attach=False)
    confirmed(loop.method.rescaler)
    grown(loop.model)
    before = loop.tensors()
    loop.method.step()
    assert changed(before, loop.tensors()) == {"9.weight", "9.bias", "11.weight", "11.bias"}


@pytest.mark.parametrize("model", ["cnn", "cnnbn", "vgg16"])
def test_one_lambda_equals_two_equal_ones(model: str):
    one = Loop(model, "swr", {"coefficient": 0.05})
    two = Loop(model, "swr", {"features": 0.05, "classifier": 0.05})
    for loop in (one, two):
        loop.train(0, 3)
    assert not changed(one.tensors(), two.tensors())


def test_is_the_rescaler_of_the_core():
    loop, core = Loop("cnn", "swr", {"coefficient": 0.01}), Loop("cnn", "vanilla", {})
    swr.SoftWeightRescaling(core.model, torch.zeros(2, 3, 18, 18), coefficient=0.01).attach(core.optimizer)
    for one in (loop, core):
        one.train(0, 4)
    assert not changed(loop.tensors(), core.tensors())


def test_reinit_takes_the_current_norms_as_anchors_when_the_learning_rate_falls():
    loops = {name: Loop("mlp", name, {"coefficient": 0.05}) for name in ("swr", "swr-reinit")}
    for name, loop in loops.items():
        initial = loop.method.state_dict()["rescaler"]["anchors"]
        loop.train(0, 3)
        assert loop.method.state_dict()["rescaler"]["anchors"] == initial
        norm = loop.model[1].weight.detach().norm().item()
        loop.optimizer.param_groups[0]["lr"] *= 0.1
        loop.train(3, 4)
        anchors = loop.method.state_dict()["rescaler"]["anchors"]
        if name == "swr":
            assert anchors == initial
        else:
            assert anchors["1.weight"] == pytest.approx(norm, rel=1e-5)


def test_the_two_lambdas_belong_together_and_want_a_feature_extractor():
    mlp, x = Loop("mlp", "vanilla", {}).model, torch.zeros(2, 1, 8, 8)
    with pytest.raises(OptionError, match="either coefficient"):
        methods.SWR(mlp, x)
    with pytest.raises(OptionError, match="either coefficient"):
        methods.SWR(mlp, x, coefficient=0.1, features=0.1, classifier=0.1)
    with pytest.raises(OptionError, match="give both"):
        methods.SWR(mlp, x, features=0.1)
    with pytest.raises(OptionError, match="no convolution"):
        methods.SWR(mlp, x, features=0.1, classifier=0.1)


@pytest.mark.filterwarnings("ignore:the model has changed")
def test_the_two_lambdas_survive_a_replaced_head():
    loop = Loop("cnn", "swr", {"features": 0.1, "classifier": 0.2, "inhomogeneous": "hold"})
    loop.train(0, 2)
    *_, last = [name for name, module in loop.model.named_children() if isinstance(module, nn.Linear)]
    loop.model[int(last)] = nn.Linear(loop.model[int(last)].in_features, 5)
    loop.optimizer.add_param_group({"params": list(loop.model[int(last)].parameters())})
    loop.train(2, 4)
    assert sorted({round(lam, 6) for lam in loop.method.rescaler.coefficients().values()}) == [0.1, 0.2]
