"""Accelerate: its wrapped optimizer is seen through, accumulated micro-batches and skipped steps are no steps."""

import pytest
import torch
from plain_loop import COEFFICIENT, adam, loader, network, plain, plan, same, steps
from torch import nn

import swr
from nets import confirmed

accelerate = pytest.importorskip("accelerate", reason="Accelerate is not installed")

from accelerate import Accelerator  # noqa: E402
from accelerate.optimizer import AcceleratedOptimizer  # noqa: E402
from accelerate.state import AcceleratorState, GradientState  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    """Accelerate keeps its settings in singletons."""
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def set_up(accumulate=1, **options):
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate, **options)
    model = network()
    rescaler = swr.SoftWeightRescaling(model, plan=plan(), coefficient=COEFFICIENT)
    model, optimizer, batches = accelerator.prepare(model, adam(model), loader(8))
    rescaler.attach(optimizer)
    accelerator.register_for_checkpointing(rescaler)
    return accelerator, model, optimizer, batches, rescaler


def advance(accelerator, model, optimizer, batches):
    for x, y in batches:
        with accelerator.accumulate(model):
            with accelerator.autocast():
                loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()


@pytest.mark.parametrize("accumulate", [1, 4])
def test_the_weights_equal_the_plain_loop_and_every_real_step_is_followed_once(accumulate):
    *parts, rescaler = set_up(accumulate)
    advance(*parts)
    assert same(parts[1], plain(8, accumulate=accumulate)[0])
    assert steps(rescaler) == [8 // accumulate]
    assert not same(parts[1], plain(8, accumulate=accumulate, attach=False)[0]), "the rescale did nothing"


def test_bfloat16_mixed_precision_equals_the_plain_loop_under_autocast():
    *parts, rescaler = set_up(mixed_precision="bf16")
    advance(*parts)
    model, _ = plain(8, context=lambda: torch.autocast("cpu", torch.bfloat16))
    assert all(torch.equal(a, b) for a, b in zip(parts[1].parameters(), model.parameters(), strict=True))
    assert steps(rescaler) == [8]


@pytest.mark.parametrize("accumulate", [1, 4])
def test_resumed_through_save_state_equals_straight(accumulate, tmp_path):
    *parts, straight = set_up(accumulate)
    advance(*parts)
    parts[0].save_state(tmp_path)
    advance(*parts)
    expected = {name: tensor.clone() for name, tensor in parts[1].state_dict().items()}

    *parts, rescaler = set_up(accumulate)
    with torch.no_grad():
        for p in parts[1].parameters():
            p.mul_(3)
    rescaler.rebase()
    parts[0].load_state(tmp_path)
    advance(*parts)
    assert all(torch.equal(expected[name], tensor) for name, tensor in parts[1].state_dict().items())
    assert rescaler.state_dict() == straight.state_dict()
    assert steps(rescaler) == [16 // accumulate]


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_that_its_grad_scaler_skips_leaves_the_weights_alone(fused):
    Accelerator(cpu=True)
    model = network()
    rescaler = confirmed(swr.SoftWeightRescaling(model, plan=plan(), coefficient=1.0))
    optimizer = AcceleratedOptimizer(
        torch.optim.Adam(model.parameters(), lr=1e-2, fused=fused), scaler=torch.amp.GradScaler("cpu", init_scale=4.0)
    )
    rescaler.attach(optimizer)
    with torch.no_grad():
        model[0].weight.mul_(2)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    optimizer.scaler.scale(model(torch.randn(4, 6)).sum() * torch.inf).backward()
    optimizer.step()
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert steps(rescaler) == [0]
    optimizer.zero_grad()
    optimizer.scaler.scale(model(torch.randn(4, 6)).sum()).backward()
    optimizer.step()
    assert steps(rescaler) == [1]
    assert float(model[0].weight.detach().norm()) == pytest.approx(rescaler.state_dict()["anchors"]["0.weight"])
