"""Soft Weight Rescaling in Lightning: one callback; checkpoints and loggers take care of themselves.

    pip install lightning
    python examples/lightning_loop.py

A network learns digits with shuffled labels, with and without SWR. The line that makes the difference is marked.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import warnings

import lightning.pytorch as pl
import torch
from lightning.pytorch.loggers import CSVLogger
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from swr.integrations.lightning import SWRCallback


class Digits(pl.LightningModule):
    """A perceptron on 8 x 8 images."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 100), nn.ReLU(), nn.Linear(100, 10))
        self.example_input_array = torch.zeros(1, 64)  # the callback traces the module with it

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.net(x)
        return y

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def train(coefficient: float | None, epochs: int, folder: str) -> dict[str, float]:
    """Fit, and return what Lightning logged last."""
    pl.seed_everything(0, verbose=False)
    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    y = torch.tensor(digits.target)[torch.randperm(len(x))]  # labels that can only be memorised
    model = Digits()
    callbacks: list[pl.Callback] = []
    if coefficient is not None:
        callbacks.append(SWRCallback(coefficient=coefficient))  # the line to add
    trainer = pl.Trainer(
        max_epochs=epochs,
        callbacks=callbacks,
        accelerator="cpu",
        accumulate_grad_batches=2,
        logger=CSVLogger(folder),
        log_every_n_steps=10,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
    print(f"SWR with λ = {coefficient}" if coefficient else "without SWR")
    print("  weight norms    " + " ".join(f"{float(p.detach().norm()):6.2f}" for p in model.parameters() if p.ndim == 2))
    return {name: float(value) for name, value in trainer.logged_metrics.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20, help="default: 20")
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")  # its advice on data loader workers
    with tempfile.TemporaryDirectory() as folder:
        for coefficient in (None, 1e-2):
            for name, value in train(coefficient, options.epochs, folder).items():
                print(f"  logged          {name} = {value:.4f}")


if __name__ == "__main__":
    main()
