"""Lightning: the same weights as the plain loop, one rescale per real step, exact resume, logs at the Trainer's interval."""

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from plain_loop import COEFFICIENT, EXAMPLE, adam, advance, loader, network, plain, plan, same, steps
from torch import nn

import swr
from swr import methods

pl = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")

from lightning.pytorch.loggers import Logger  # noqa: E402

from swr.integrations import lightning as integration  # noqa: E402
from swr.integrations.lightning import SWRCallback  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning"),  # advice on speed
    pytest.mark.filterwarnings("ignore:.*isinstance.treespec, LeafSpec.:FutureWarning"),  # its use of torch's pytree
    pytest.mark.filterwarnings("ignore:.*GPU available but not used:UserWarning"),
]


class Module(pl.LightningModule):
    def __init__(self, example=None):
        super().__init__()
        self.net = network()
        self.example_input_array = example

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("loss", loss)
        return loss

    def test_step(self, batch, batch_idx):
        self(batch[0])

    def configure_optimizers(self):
        return adam(self)


class Memory(Logger):
    """A logger that remembers what it was given, by step."""

    name, version = "memory", 0

    def __init__(self):
        super().__init__()
        self.rows = {}

    def log_metrics(self, metrics, step=None):
        self.rows.setdefault(step, {}).update(metrics)

    def log_hyperparams(self, *args, **kwargs):
        pass


@cache
def plan_of(kind):
    return swr.analyze(kind(), EXAMPLE)


def trainer(callback, epochs=1, **options):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False, "logger": False}
    return pl.Trainer(max_epochs=epochs, accelerator="cpu", callbacks=[callback], **{**quiet, **options})


def fitted(batches=8, epochs=1, module=None, callback=None, ckpt_path=None, **options):
    module = Module() if module is None else module
    callback = SWRCallback(plan=plan_of(Module), coefficient=COEFFICIENT) if callback is None else callback
    runner = trainer(callback, epochs, **options)
    runner.fit(module, loader(batches), ckpt_path=ckpt_path)
    return module, callback, runner


@pytest.mark.parametrize("accumulate", [1, 4])
def test_the_weights_equal_the_plain_loop_and_every_real_step_is_followed_once(accumulate):
    module, callback, runner = fitted(accumulate_grad_batches=accumulate)
    model, _ = plain(8, accumulate=accumulate)
    assert same(module.net, model)
    assert steps(callback.rescaler) == [runner.global_step] == [8 // accumulate]
    assert not same(module.net, plain(8, accumulate=accumulate, attach=False)[0]), "the rescale did nothing"


def test_bfloat16_mixed_precision_equals_the_plain_loop_under_autocast():
    module, callback, _ = fitted(precision="bf16-mixed")
    model, _ = plain(8, context=lambda: torch.autocast("cpu", torch.bfloat16))
    assert same(module.net, model)
    assert steps(callback.rescaler) == [8]


def test_an_overflow_under_a_grad_scaler_is_no_step():
    from lightning.pytorch.plugins.precision import MixedPrecision

    class Overflow(Module):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            return loss * torch.inf if batch_idx == 2 else loss

    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    precision = MixedPrecision("bf16-mixed", "cpu")
    precision.scaler = scaler
    module, callback, _ = fitted(4, module=Overflow(), plugins=[precision])
    assert scaler.get_scale() == 2.0, "nothing overflowed"
    assert steps(callback.rescaler) == [3]
    assert all(p.isfinite().all() for p in module.parameters())


@pytest.mark.parametrize("accumulate", [1, 4])
def test_resumed_from_a_checkpoint_equals_straight(accumulate, tmp_path):
    options = {"accumulate_grad_batches": accumulate}
    straight, reference, _ = fitted(epochs=2, **options)
    _, _, first = fitted(epochs=1, **options)
    first.save_checkpoint(tmp_path / "half.ckpt")
    module = Module()
    with torch.no_grad():
        for p in module.parameters():
            p.mul_(3)  # other anchors, unless the state is restored
    resumed, callback, _ = fitted(epochs=2, module=module, ckpt_path=tmp_path / "half.ckpt", **options)
    assert same(straight, resumed)
    assert callback.rescaler.state_dict() == reference.rescaler.state_dict()
    assert steps(callback.rescaler) == [16 // accumulate]


def test_a_second_fit_attaches_to_its_own_optimizer_and_keeps_the_anchors():
    module, callback, _ = fitted()
    anchors = callback.rescaler.state_dict()["anchors"]
    fitted(module=module, callback=callback)
    model, rescaler = plain(8)
    again = adam(model)
    rescaler.attach(again)
    advance(model, again, 8)
    assert same(module.net, model)
    assert steps(callback.rescaler) == [16]
    assert callback.rescaler.state_dict()["anchors"] == anchors


def test_after_a_fit_and_after_a_failed_one_nothing_is_attached():
    class Broken(Module):
        def on_train_batch_start(self, batch, batch_idx):
            if batch_idx == 2:
                raise RuntimeError("broken")

    module, callback, _ = fitted()
    advance(module.net, adam(module), 2)
    assert steps(callback.rescaler) == [8]
    callback = SWRCallback(plan=plan_of(Module), coefficient=COEFFICIENT)
    with pytest.raises(RuntimeError, match="broken"):
        fitted(module=Broken(), callback=callback)
    fitted(module=module, callback=callback)
    assert steps(callback.rescaler) == [8]


def test_norms_and_scalers_are_logged_at_the_interval_of_the_trainer_and_measured_only_then(monkeypatch):
    measured, memory = [], Memory()
    measure = integration.measured
    monkeypatch.setattr(integration, "measured", lambda rescaler: measured.append(measure(rescaler)) or measured[-1])
    _, callback, _ = fitted(16, logger=memory, log_every_n_steps=4, accumulate_grad_batches=2)
    rows = {step: row for step, row in memory.rows.items() if "swr/norm/net.0.weight" in row}
    assert sorted(rows) == [3, 7]
    assert all("loss" in row for row in rows.values())
    assert len(measured) == 2
    for name, norm in callback.rescaler.norms().items():
        assert rows[7][f"swr/norm/{name}"] == pytest.approx(norm)
        assert rows[7][f"swr/scaler/{name}"] == pytest.approx(callback.rescaler.scalers()[name])
        assert rows[3][f"swr/norm/{name}"] != rows[7][f"swr/norm/{name}"]


def test_example_inputs_come_from_the_module_if_not_given():
    given, _, _ = fitted(callback=SWRCallback(EXAMPLE, coefficient=COEFFICIENT))
    with_array, _, _ = fitted(module=Module(EXAMPLE), callback=SWRCallback(coefficient=COEFFICIENT))
    with_mapping, _, _ = fitted(module=Module({"x": EXAMPLE}), callback=SWRCallback(coefficient=COEFFICIENT))
    expected, _ = plain(8)
    assert same(given.net, expected)
    assert same(with_array.net, expected)
    assert same(with_mapping.net, expected)
    with pytest.raises(swr.OptionError, match="example_input_array"):
        fitted(callback=SWRCallback(coefficient=COEFFICIENT))


def test_a_module_built_in_configure_model_is_analysed_then_and_resumes(tmp_path):
    class Late(Module):
        def __init__(self):
            super().__init__()
            del self.net

        def configure_model(self):
            if not hasattr(self, "net"):
                self.net = network()

    module, _, first = fitted(module=Late(), callback=SWRCallback(EXAMPLE, coefficient=COEFFICIENT))
    assert same(module.net, plain(8)[0])
    first.save_checkpoint(tmp_path / "half.ckpt")
    resumed, _, _ = fitted(epochs=2, module=Late(), ckpt_path=tmp_path / "half.ckpt")
    assert same(resumed, fitted(epochs=2, module=Late())[0])


class Pair(Module):
    """Two networks, each with an optimizer of its own; the second one is stepped twice as often."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        self.critic = network()

    def forward(self, x):
        return self.net(x) + self.critic(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        for optimizer in (*self.optimizers(), self.optimizers()[1]):
            optimizer.zero_grad()
            self.manual_backward(nn.functional.cross_entropy(self(x), y))
            optimizer.step()

    def configure_optimizers(self):
        return [adam(self.net), adam(self.critic)]


def test_with_several_optimizers_a_rescaler_of_one_network_follows_that_one():
    module = Pair()
    critic = {name: p.detach().clone() for name, p in module.critic.named_parameters()}
    rescaler = swr.SoftWeightRescaling(module.net, plan=plan(), coefficient=COEFFICIENT)
    fitted(module=module, callback=SWRCallback(rescaler=rescaler))
    assert steps(rescaler) == [8]
    assert not any(torch.equal(critic[name], p) for name, p in module.critic.named_parameters())


def test_with_several_optimizers_a_rescaler_of_the_module_follows_each():
    _, callback, _ = fitted(module=Pair(), callback=SWRCallback(EXAMPLE, coefficient=COEFFICIENT))
    assert steps(callback.rescaler) == [8, 16]


def test_an_optimizer_of_another_module_is_refused():
    class Elsewhere(Module):
        def configure_optimizers(self):
            return adam(network())

    with pytest.raises(swr.AttachError, match="none of the 1 optimizers"):
        fitted(module=Elsewhere())


class Noise(methods.Method):
    """Something random after every step."""

    def step(self):
        for p in self.model.parameters():
            p.data.add_(torch.randn(p.shape, generator=self.generator), alpha=0.01)


def test_another_method_goes_along_and_resumes(tmp_path):
    def run(epochs, ckpt_path=None):
        module = Module()
        return fitted(epochs=epochs, module=module, callback=SWRCallback(rescaler=Noise(module)), ckpt_path=ckpt_path)

    _, _, first = run(1)
    first.save_checkpoint(tmp_path / "half.ckpt")
    straight = run(2)[0]
    assert same(straight, run(2, tmp_path / "half.ckpt")[0])
    model = network()
    optimizer = adam(model)
    Noise(model).attach(optimizer)
    advance(model, optimizer, 8)
    advance(model, optimizer, 8)
    assert same(straight.net, model)


def test_a_method_that_adds_to_the_gradients_acts_although_lightning_makes_them_inside_the_step():
    module = Module()
    method = methods.build("l2-init", module, coefficient=0.1)
    fitted(module=module, callback=SWRCallback(rescaler=method))
    model = network()
    optimizer = adam(model)
    methods.build("l2-init", model, coefficient=0.1).attach(optimizer)
    advance(model, optimizer, 8)
    assert same(module.net, model)
    assert not same(module.net, plain(8, attach=False)[0])


def test_evaluating_an_older_checkpoint_leaves_the_state_of_training_alone(tmp_path):
    module, callback, runner = fitted()
    runner.save_checkpoint(tmp_path / "old.ckpt")
    fitted(module=module, callback=callback)
    state = callback.state_dict()
    trainer(callback).test(module, loader(2), ckpt_path=tmp_path / "old.ckpt", verbose=False)
    fitted(module=module, callback=callback)
    assert steps(callback.rescaler)[0] == state["optimizers"][0]["steps"] + 8


def test_a_ready_rescaler_takes_no_options():
    rescaler = swr.SoftWeightRescaling(network(), plan=plan())
    with pytest.raises(swr.OptionError, match="every"):
        SWRCallback(rescaler=rescaler, every=2)
    with pytest.raises(swr.OptionError, match="example_inputs"):
        SWRCallback(EXAMPLE, rescaler=rescaler)


def test_under_ddp_both_processes_hold_the_weights_of_the_plain_loop_over_their_joint_batches():
    script = Path(__file__).parent / "lightning_ddp.py"
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.count("agrees") == 2
