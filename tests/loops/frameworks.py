"""Loops that a framework runs: Lightning, Accelerate, the Trainers of transformers and TorchRL; imported when asked for."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor, nn

from loops.task import STEPS, Outcome, Span, batch, loss_of, network, optimizer_of, rescaler_of, rescales_of, weights_of


def lightning(span: Span) -> Outcome:
    """One epoch per batch, so that a checkpoint falls between two epochs."""
    import lightning.pytorch as pl

    from swr.integrations.lightning import SWRCallback

    class Module(pl.LightningModule):
        def __init__(self, net: nn.Module) -> None:
            super().__init__()
            self.net = net

        def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
            return loss_of(self.net(batch[0]), batch[1])

        def train_dataloader(self) -> Any:
            return torch.utils.data.DataLoader([batch(self.current_epoch)], batch_size=None)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return optimizer_of(self.net)

    net = network()
    rescaler = rescaler_of(net)
    trainer = pl.Trainer(
        max_epochs=span.last,
        accelerator="cpu",
        callbacks=[SWRCallback(rescaler=rescaler)],
        reload_dataloaders_every_n_epochs=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        logger=False,
    )
    trainer.fit(Module(net), ckpt_path=span.resume)
    if span.save is not None:
        trainer.save_checkpoint(span.save)
    return Outcome(weights_of(net), rescales_of(rescaler), trainer.global_step)


def accelerate(span: Span) -> Outcome:
    from accelerate import Accelerator

    _forget_settings()
    accelerator = Accelerator(cpu=True)
    net = network()
    rescaler = rescaler_of(net)
    model, optimizer = accelerator.prepare(net, optimizer_of(net))
    rescaler.attach(optimizer)
    accelerator.register_for_checkpointing(rescaler)
    if span.resume is not None:
        accelerator.load_state(span.resume)
    for step in span:
        x, y = batch(step)
        accelerator.backward(loss_of(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
    if span.save is not None:
        accelerator.save_state(span.save)
    return Outcome(weights_of(net), rescales_of(rescaler), span.last)


def trainer(span: Span) -> Outcome:
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import Trainer, TrainingArguments

    from swr.integrations.transformers import SWRCallback

    _forget_settings()

    class Classifier(nn.Module):
        def __init__(self, net: nn.Module) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
            return {"loss": loss_of(self.net(x), labels)}

    class InOrder(Trainer):
        def _get_train_sampler(self, *args: Any) -> Any:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    net = network()
    rescaler = rescaler_of(net)
    folder = (span.save or span.resume or _nowhere()).parent
    arguments = TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=len(batch(0)[0]),
        max_steps=span.last,
        lr_scheduler_type="constant",
        save_strategy="steps" if span.save else "no",
        save_steps=span.last,
        max_grad_norm=0.0,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    rows = [{"x": x, "labels": y} for step in range(STEPS) for x, y in zip(*batch(step), strict=True)]
    run = InOrder(
        model=Classifier(net),
        args=arguments,
        train_dataset=rows,
        callbacks=[SWRCallback(rescaler=rescaler)],
        optimizers=(optimizer_of(net), None),
    )
    run.train(resume_from_checkpoint=str(span.resume) if span.resume else None)
    if span.save is not None:
        (folder / f"checkpoint-{span.last}").rename(span.save)
    return Outcome(weights_of(net), rescales_of(rescaler), run.state.global_step)


def torchrl(span: Span) -> Outcome:
    """A loss of TorchRL makes the network functional; the rescaler has the network itself."""
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule
    from torchrl.checkpoint import Checkpoint
    from torchrl.objectives import LossModule
    from torchrl.trainers import DefaultOptimizationStepper, Trainer

    from swr.integrations.torchrl import SWRHook

    class Loss(LossModule):  # type: ignore[misc]
        actor_network: TensorDictModule
        actor_network_params: Any
        target_actor_network_params: Any

        def __init__(self, network: TensorDictModule) -> None:
            super().__init__()
            self.convert_to_functional(network, "actor_network")

        def forward(self, batch: TensorDict) -> TensorDict:
            with self.actor_network_params.to_module(self.actor_network):
                out = self.actor_network(batch)["out"]
            return TensorDict({"loss": loss_of(out, batch["y"])})

    class Batches:
        """What the Trainer asks of a collector."""

        requested_frames_per_batch, init_random_frames = 8, 0

        def __iter__(self) -> Any:
            for step in span:
                x, y = batch(step)
                yield TensorDict({"x": x, "y": y}, batch_size=[len(x)])

        def set_seed(self, seed: int, **options: Any) -> int:
            return seed

        def state_dict(self) -> dict[str, Any]:
            return {}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            pass

        def update_policy_weights_(self, *args: Any, **options: Any) -> None:
            pass

        def shutdown(self, *args: Any, **options: Any) -> None:
            pass

    net = network()
    rescaler = rescaler_of(net)
    loss = Loss(TensorDictModule(net, in_keys=["x"], out_keys=["out"]))
    optimizer = optimizer_of(loss)
    steps: list[int] = []
    optimizer.register_step_post_hook(lambda *_: steps.append(1))
    run = Trainer(
        collector=Batches(),
        total_frames=8 * span.last,
        frame_skip=1,
        optim_steps_per_batch=1,
        loss_module=loss,
        optimizer=optimizer,
        optimization_stepper=DefaultOptimizationStepper(),
        clip_grad_norm=False,
        progress_bar=False,
        save_trainer_file=span.save,
        checkpoint=Checkpoint(),
    )
    SWRHook(rescaler).register(run)
    if span.resume is not None:
        run.load_from_file(span.resume)
    run.train()
    return Outcome(weights_of(net), rescales_of(rescaler), span.first + len(steps))


def _forget_settings() -> None:
    """Accelerate keeps its settings in singletons."""
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def _nowhere() -> Any:
    import tempfile
    from pathlib import Path

    return Path(tempfile.mkdtemp()) / "nothing"
