"""The arithmetic in Python floats and the one in tensors agree."""

import copy

import pytest
import torch

import swr
from nets import cnn, cnn_bn, inputs_of, make, mlp, train
from swr.rescaling.kernels import DeviceKernel, HostKernel

# Growth is imitated by writing to the weights, which a rescaler notices before its first step.
pytestmark = pytest.mark.filterwarnings("ignore:the weights have changed since the rescaler was built")


def spied(method, used):
    def spy(kernel, *args):
        used.append(type(kernel))
        return method(kernel, *args)

    return spy


@pytest.mark.parametrize("aim", [{"coefficient": 1e-2}, {"growth": 1.0}], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("build", [mlp, cnn, cnn_bn])
def test_host_and_device_arithmetic_agree_over_a_training_run(build, dtype, aim, monkeypatch):
    models = [make(build, dtype=dtype) for _ in range(2)]
    plain = copy.deepcopy(models[0])
    pending, used = [], []
    for kernel in (HostKernel, DeviceKernel):
        monkeypatch.setattr(kernel, "rescale", spied(kernel.rescale, used))
    for model, host in zip(models, (True, False), strict=True):
        monkeypatch.setattr(HostKernel, "suits", staticmethod(lambda *args, host=host: host))
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
        rescaler = swr.SoftWeightRescaling(model, inputs_of(model), **aim)
        rescaler.attach(optimizer)
        torch.manual_seed(3)
        train(model, optimizer, 30)
        pending.append(rescaler.state_dict()["optimizers"][0]["pending"])
    assert used == [HostKernel] * 30 + [DeviceKernel] * 30
    tolerance = 1e-5 if dtype is torch.float32 else 1e-12
    for mine, theirs, start in zip(*(m.parameters() for m in models), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)
        assert not torch.equal(mine, start)
    assert pending[0] == pytest.approx(pending[1], abs=1e-7, rel=0)


@pytest.mark.parametrize("host", [True, False])
def test_an_enormous_factor_is_applied_in_parts_and_never_overflows(host, monkeypatch):
    monkeypatch.setattr(HostKernel, "suits", staticmethod(lambda *args: host))
    model = make(mlp, dtype=torch.float32)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), coefficient=1.0)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1e-18)
    for _ in range(8):
        rescaler.step()
        assert all(p.isfinite().all() for p in model.parameters())
    anchors = rescaler.state_dict()["anchors"]
    for name, p in model.named_parameters():
        if name in anchors:
            assert float(p.detach().norm()) == pytest.approx(anchors[name], rel=1e-5)


@pytest.mark.parametrize("aim", [{"coefficient": 0.5}, {"growth": 1.0}], ids=str)
@pytest.mark.parametrize("host", [True, False])
def test_a_step_that_the_optimizer_skipped_leaves_everything_alone(host, aim, monkeypatch):
    monkeypatch.setattr(HostKernel, "suits", staticmethod(lambda *args: host))
    model = make(mlp)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), **aim)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0, fused=True)
    rescaler.attach(optimizer)
    with torch.no_grad():
        model[0].weight.mul_(2)
    before = copy.deepcopy(model.state_dict())
    optimizer.found_inf = torch.tensor(1.0)
    optimizer.step()
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    optimizer.found_inf = torch.tensor(0.0)
    optimizer.step()
    assert not torch.equal(before["0.weight"], model[0].weight)


@pytest.mark.parametrize("host", [True, False])
def test_what_rounding_left_of_earlier_rescales_waits_while_steps_are_skipped(host, monkeypatch):
    monkeypatch.setattr(HostKernel, "suits", staticmethod(lambda *args: host))
    for seed in range(20):  # in float32, for some of these factors the remainder alone would move the weights
        model = make(mlp, seed, dtype=torch.float32)
        rescaler = swr.SoftWeightRescaling(model, inputs_of(model), growth=0.7 + 0.01 * seed, anchors="initial")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0, fused=True)
        rescaler.attach(optimizer)
        optimizer.found_inf = torch.tensor(0.0)
        optimizer.step()
        before = copy.deepcopy(model.state_dict())
        pending = rescaler.state_dict()["optimizers"][0]["pending"]
        assert any(pending.values())
        optimizer.found_inf = torch.tensor(1.0)
        optimizer.step()
        assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
        assert rescaler.state_dict()["optimizers"][0]["pending"] == pytest.approx(pending, abs=1e-15)
