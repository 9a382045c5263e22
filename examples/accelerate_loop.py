"""Soft Weight Rescaling in an Accelerate loop: analyse, prepare, attach; the state goes into Accelerate's checkpoints.

    pip install accelerate
    python examples/accelerate_loop.py          # or: accelerate launch examples/accelerate_loop.py

The run is broken off in the middle, restored from its checkpoint, and ends with the very same weights.
"""

from __future__ import annotations

import argparse
import tempfile

import torch
from accelerate import Accelerator
from accelerate.utils import ProjectConfiguration, set_seed
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import swr


def train(folder: str, steps: int, *, coefficient: float | None, resume: bool = False) -> list[Tensor]:
    """Train for some steps of four micro-batches each, saving half-way; ``resume`` begins at that checkpoint."""
    accelerator = Accelerator(
        cpu=True, gradient_accumulation_steps=4, project_config=ProjectConfiguration(project_dir=folder, total_limit=1)
    )
    set_seed(0)
    x = torch.randn(16 * 4 * steps, 32)
    y = (x[:, :8].sum(1) > 0).long()
    data = DataLoader(TensorDataset(x, y), batch_size=16)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    rescaler = None
    if coefficient is not None:
        rescaler = swr.SoftWeightRescaling(model, x[:1], coefficient=coefficient)  # before prepare wraps the model
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    if rescaler is not None:
        rescaler.attach(optimizer)  # Accelerate's wrapper is seen through: only real steps count
        accelerator.register_for_checkpointing(rescaler)  # anchors and step count, with save_state and load_state

    done = 0
    if resume:
        accelerator.load_state(f"{folder}/half")
        done = steps // 2
        data = accelerator.skip_first_batches(data, 4 * done)
    for inputs, targets in data:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        done += accelerator.sync_gradients
        if accelerator.sync_gradients and done == steps // 2 and not resume:
            accelerator.save_state(f"{folder}/half")
    return [p.detach().clone() for p in accelerator.unwrap_model(model).parameters()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="optimizer steps (default: 200)")
    parser.add_argument("--coefficient", type=float, default=1e-2, help="λ (default: 0.01)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        plain = train(folder, options.steps, coefficient=None)
        straight = train(folder, options.steps, coefficient=options.coefficient)
        resumed = train(folder, options.steps, coefficient=options.coefficient, resume=True)
    for name, weights in (("without SWR", plain), ("with SWR", straight), ("with SWR, resumed", resumed)):
        print(f"{name:<18} weight norms " + " ".join(f"{float(w.norm()):6.2f}" for w in weights if w.ndim == 2))
    same = all(torch.equal(a, b) for a, b in zip(straight, resumed, strict=True))
    print(f"resumed half-way, the weights are {'bit-identical' if same else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
