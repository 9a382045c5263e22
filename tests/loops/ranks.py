"""Loops of several processes: DDP and FSDP2 over gloo, each rank with its part of every batch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

from loops.task import (
    Outcome,
    Span,
    load,
    loss_of,
    network,
    optimizer_of,
    part,
    rescaler_of,
    rescales_of,
    save,
    weights_of,
)


def on_ranks(world: int, work: Callable[..., Any], *args: Any, folder: Path) -> list[Any]:
    """What ``work(rank, world, *args)`` returns on every rank of a fresh process group."""
    folder.mkdir(parents=True, exist_ok=True)
    mp.spawn(_rank, (world, str(folder), work, args), nprocs=world)
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(world)]


def _rank(rank: int, world: int, folder: str, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    try:
        torch.save(work(rank, world, *args), f"{folder}/{rank}.pt")
        dist.barrier()
    finally:
        dist.destroy_process_group()
    # All is done and saved. The interpreter's own end is left out: a gloo thread that asks for the GIL then is ended inside
    # a C++ frame, and the process aborts ("terminate called without an active exception"; pytorch/pytorch#179291).
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def ddp(rank: int, world: int, span: Span) -> Outcome:
    model = network()
    rescaler = rescaler_of(model)
    wrapped = DistributedDataParallel(model)
    optimizer = optimizer_of(wrapped)
    rescaler.attach(optimizer)
    load(span.resume, model=model, optimizer=optimizer, rescaler=rescaler)
    for step in span:
        optimizer.zero_grad()
        x, y = part(step, rank, world)
        loss_of(wrapped(x), y).backward()
        optimizer.step()
    if rank == 0:
        save(span.save, model=model, optimizer=optimizer, rescaler=rescaler)
    return Outcome(weights_of(model), rescales_of(rescaler), span.last)


def sharded(model: nn.Module, world: int, **options: Any) -> nn.Module:
    mesh = options.pop("mesh", None) or init_device_mesh("cpu", (world,))
    for layer in model:
        if any(True for _ in layer.parameters()):
            fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def fsdp(rank: int, world: int, span: Span, *, whole_batches: bool = False, precision: bool = False) -> Outcome:
    """whole_batches: every rank sees the whole batch, so that nothing depends on the number of ranks."""
    model = network()
    rescaler = rescaler_of(model)
    half = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32} if precision else {}
    sharded(model, world, mp_policy=MixedPrecisionPolicy(**half))
    optimizer = optimizer_of(model)
    rescaler.attach(optimizer)
    if span.resume is not None:
        optimizer_state = get_state_dict(model, optimizer)
        state = {"model": optimizer_state[0], "optimizer": optimizer_state[1], "rescaler": rescaler}
        dcp.load(state, checkpoint_id=span.resume)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    for step in span:
        optimizer.zero_grad()
        x, y = part(step, 0, 1) if whole_batches else part(step, rank, world)
        loss_of(model(x), y).backward()
        optimizer.step()
    if span.save is not None:
        parts = get_state_dict(model, optimizer)
        dcp.save({"model": parts[0], "optimizer": parts[1], "rescaler": rescaler}, checkpoint_id=span.save)
    return Outcome(full(model), rescales_of(rescaler), span.last)


def full(model: nn.Module) -> dict[str, Tensor]:
    """The whole parameters of a sharded model."""
    whole = {name: p.full_tensor() if hasattr(p, "full_tensor") else p for name, p in model.named_parameters()}
    return {name: p.detach().clone() for name, p in whole.items()}
