"""Soft Weight Rescaling on a sharded model (FSDP2), saved and restored through torch.distributed.checkpoint.

    torchrun --nproc-per-node 2 examples/fsdp2_torchrun.py

Three steps: analyse the plain model, shard it, attach. One rescale costs one all-reduce for the whole model, however many
layers it has; the collectives of a step are counted here. Runs on CPU processes with gloo.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.debug import CommDebugMode

import swr
from swr.hooks import Handle


class Block(nn.Module):
    """A residual block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.down(self.up(self.norm(x)).relu())
        return y


def build(coefficient: float) -> tuple[nn.Module, torch.optim.Optimizer, swr.SoftWeightRescaling, Handle]:
    """The same model on every rank, analysed, sharded, attached."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), Block(64), Block(64), nn.LayerNorm(64), nn.Linear(64, 10))
    rescaler = swr.SoftWeightRescaling(model, torch.zeros(1, 32), coefficient=coefficient)  # 1. the plain model
    for block in (model[1], model[2], model):
        fully_shard(block)  # 2. shard it, in place
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    handle = rescaler.attach(optimizer)  # 3. attach
    return model, optimizer, rescaler, handle


def train(model: nn.Module, optimizer: torch.optim.Optimizer, batches: range) -> None:
    for batch in batches:
        generator = torch.Generator().manual_seed(batch * dist.get_world_size() + dist.get_rank())
        x, y = torch.randn(16, 32, generator=generator), torch.randint(0, 10, (16,), generator=generator)
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()


def shards(model: nn.Module) -> list[Tensor]:
    """What this rank holds of the parameters."""
    return [p.to_local() for p in model.parameters() if isinstance(p, DTensor)]


def say(words: str) -> None:
    if dist.get_rank() == 0:
        print(words, flush=True)


def run(steps: int, coefficient: float, folder: str) -> None:
    model, optimizer, rescaler, _ = build(coefficient)
    say(f"{dist.get_world_size()} processes, {len(rescaler.plan.weights)} weights, λ = {coefficient}")
    train(model, optimizer, range(steps))
    states = get_state_dict(model, optimizer)
    dcp.save({"model": states[0], "optimizer": states[1], "rescaler": rescaler}, checkpoint_id=folder)  # type: ignore[attr-defined]
    train(model, optimizer, range(steps, 2 * steps))
    say("norms " + " ".join(f"{value:.2f}" for value in rescaler.norms().values()))

    other, optimizer, rescaler, handle = build(coefficient)
    states = get_state_dict(other, optimizer)
    dcp.load({"model": states[0], "optimizer": states[1], "rescaler": rescaler}, checkpoint_id=folder)  # type: ignore[attr-defined]
    set_state_dict(other, optimizer, model_state_dict=states[0], optim_state_dict=states[1])
    train(other, optimizer, range(steps, 2 * steps))
    same = all(torch.equal(a, b) for a, b in zip(shards(model), shards(other), strict=True))
    say(f"restored half-way, rank 0's shards are {'bit-identical' if same else 'DIFFERENT'}")
    handle.remove()  # from here by hand
    with CommDebugMode() as collectives:
        rescaler.step()
    say(f"collectives of one rescale: {collectives.get_total_counts()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20, help="steps before and after the checkpoint (default: 20)")
    parser.add_argument("--coefficient", type=float, default=1e-2, help="λ (default: 0.01)")
    options = parser.parse_args()
    if "RANK" not in os.environ:
        sys.exit(f"This example runs in several processes: torchrun --nproc-per-node 2 {sys.argv[0]}")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    with tempfile.TemporaryDirectory() as own:
        folders = [own]
        dist.broadcast_object_list(folders)  # all ranks write into rank 0's
        run(options.steps, options.coefficient, folders[0])
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
