"""In every loop people use: the plain loop's weights, one rescale per real step, exact resume."""

import pytest
import torch

from loops import frameworks, ranks, single
from loops.task import AIMS, STEPS, STOP, Outcome, Span, batch, loss_of, network, optimizer_of, rescaler_of, weights_of

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning"),  # Lightning's advice on speed
    pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.:FutureWarning"),  # its use of torch's pytree
    pytest.mark.filterwarnings("ignore:.*pin_memory.*no accelerator is found:UserWarning"),  # the Trainer's
]

EXACT, ROUNDING, IN_TURN, BF16 = 0.0, 2e-6, 1e-2, 2e-2
"""how far a loop's weights may be from the plain loop's: not at all; sums in another order; the second optimizer's step
meets biases that the first one's rescale has moved; half precision"""


def on_two_ranks(work):
    def run(span: Span, folder) -> Outcome:
        outcomes = ranks.on_ranks(2, work, span, folder=folder)
        for other in outcomes[1:]:
            assert other.rescales == outcomes[0].rescales
            assert all(torch.equal(other.weights[name], w) for name, w in outcomes[0].weights.items()), "ranks differ"
        return outcomes[0]

    return run


def in_this_process(loop):
    return lambda span, folder: loop(span)


LOOPS = {
    "plain": (in_this_process(single.plain), EXACT),
    "closure": (in_this_process(single.closure), EXACT),
    "several groups": (in_this_process(single.several_groups), EXACT),
    "two optimizers": (in_this_process(single.two_optimizers), IN_TURN),
    "accumulate": (in_this_process(single.accumulated), ROUNDING),
    "bf16 autocast": (in_this_process(single.autocast), BF16),
    "GradScaler": (in_this_process(single.grad_scaler), ROUNDING),
    "GradScaler, fused": (in_this_process(single.grad_scaler_fused), ROUNDING),
    "compile": (in_this_process(single.compiled), ROUNDING),
    "DDP": (on_two_ranks(ranks.ddp), ROUNDING),
    "FSDP2": (on_two_ranks(ranks.fsdp), ROUNDING),
    "Lightning": (in_this_process(frameworks.lightning), EXACT),
    "Accelerate": (in_this_process(frameworks.accelerate), EXACT),
    "HF Trainer": (in_this_process(frameworks.trainer), EXACT),
    "TorchRL": (in_this_process(frameworks.torchrl), EXACT),
}


@pytest.mark.parametrize("aim", AIMS)
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_does_what_the_plain_one_does_and_resumes_exactly(name, aim, tmp_path, monkeypatch):
    monkeypatch.setenv("LOOP_AIM", aim)
    loop, tolerance = LOOPS[name]
    expected = single.plain(Span())
    straight = loop(Span(), tmp_path / "straight")
    assert straight.rescales == straight.steps
    for key, value in expected.weights.items():
        torch.testing.assert_close(straight.weights[key], value, rtol=tolerance, atol=tolerance)

    checkpoint = tmp_path / "checkpoint"
    half = loop(Span(last=STOP, save=checkpoint), tmp_path / "half")
    assert half.rescales == half.steps
    assert any(not torch.equal(half.weights[key], value) for key, value in straight.weights.items())
    resumed = loop(Span(first=STOP, resume=checkpoint), tmp_path / "resumed")
    assert resumed.rescales == straight.rescales
    for key, value in straight.weights.items():
        assert torch.equal(resumed.weights[key], value), f"{key} after resuming"


@pytest.mark.parametrize("aim", AIMS)
def test_the_rescale_matters_in_this_task(aim, monkeypatch):
    monkeypatch.setenv("LOOP_AIM", aim)
    model = network()
    rescaler_of(model)  # not attached
    optimizer = optimizer_of(model)
    for step in range(STEPS):
        x, y = batch(step)
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()
    plain = single.plain(Span()).weights
    apart = max(float((plain[name] - w).abs().max()) for name, w in weights_of(model).items())
    assert apart > 3 * BF16
