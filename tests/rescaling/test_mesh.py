"""FSDP2 over tensor parallelism on a mesh of two by two ranks, tensor parallelism alone, and the stages of a pipeline."""

import copy

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import swr
from loops import ranks
from loops.task import loss_of
from nets import confirmed

STEPS = 6


class Block(nn.Module):
    """Queries, keys and values in one matrix, then two layers."""

    def __init__(self, fused):
        super().__init__()
        self.qkv = nn.Linear(8, 24) if fused else None
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        if self.qkv is not None:
            q, k, v = self.qkv(x).split(8, -1)
            x = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.down(self.up(x).relu())


def trained(fused, shard, aim):
    """A network after some steps whose weights had doubled before them, and the norms at the end."""
    torch.manual_seed(0)
    model = nn.Sequential(Block(fused), nn.Linear(8, 3)).double()
    x, y = torch.randn(8, 4, 8, dtype=torch.float64), torch.randint(3, (8,))
    rescaler = confirmed(swr.SoftWeightRescaling(model, x, **aim))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2.0)
        if fused:
            model[0].qkv.weight[:8] *= 2  # the queries grow most
    shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    rescaler.attach(optimizer)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss_of(model(x).mean(1), y).backward()
        optimizer.step()
    return ranks.full(model), rescaler.norms()


def tensor_parallel(model, mesh):
    split = {"0.up": ColwiseParallel(), "0.down": RowwiseParallel()}
    if model[0].qkv is not None:  # the rows are sharded, the outputs whole again: blocks that cross the ranks
        from torch.distributed.tensor import Replicate

        split["0.qkv"] = ColwiseParallel(output_layouts=Replicate())
    return parallelize_module(model, mesh, split)


def both(mesh):
    def shard(model):
        tensor_parallel(model, mesh["tp"])
        fully_shard(model[0], mesh=mesh["dp"])
        fully_shard(model, mesh=mesh["dp"])

    return shard


AIMS = {"coefficient": {"coefficient": 0.1}, "growth": {"growth": 1.1, "anchors": "initial"}}
CASES = [(fused, aim) for fused in (False, True) for aim in AIMS]


def refused(mesh):
    model = nn.Sequential(Block(fused=False), nn.Linear(8, 3))
    tensor_parallel(model, mesh["tp"])
    try:
        swr.SoftWeightRescaling(model, torch.randn(2, 4, 8))
    except swr.ModelError as error:
        return str(error)
    return ""


def everything(rank, world):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    found = {case: trained(case[0], both(mesh), AIMS[case[1]]) for case in CASES}
    found["tensor parallel"] = trained(True, lambda m: tensor_parallel(m, mesh["tp"]), AIMS["coefficient"])
    found["refused"] = refused(mesh)
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return ranks.on_ranks(4, everything, folder=tmp_path_factory.mktemp("mesh"))


def agrees(rank, expected):
    weights, norms = rank
    for name, value in expected[0].items():
        torch.testing.assert_close(weights[name], value, rtol=1e-9, atol=1e-9)
    assert norms == pytest.approx(expected[1], rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("fused", "aim"), CASES)
def test_fsdp2_over_tensor_parallelism_ends_where_one_process_does(fused, aim, found):
    expected = trained(fused, lambda model: model, AIMS[aim])
    for rank in found:
        agrees(rank[fused, aim], expected)


@pytest.mark.slow
def test_tensor_parallelism_alone_ends_where_one_process_does(found):
    expected = trained(True, lambda model: model, AIMS["coefficient"])
    for rank in found:
        agrees(rank["tensor parallel"], expected)


@pytest.mark.slow
def test_a_model_that_is_parallel_already_is_refused_with_the_way_out(found):
    for rank in found:
        assert "0.up.weight is already distributed (a DTensor); analyse the plain model first" in rank["refused"]


def test_a_rescaler_for_each_stage_of_a_pipeline_is_exact_if_it_keeps_the_output():
    """A rescale of one stage changes the sizes of the next one's inputs by C unless C = 1; its biases then do not follow."""
    torch.manual_seed(0)
    stages = [
        nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 5)),
        nn.Sequential(nn.ReLU(), nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 3)),
    ]
    stages = [stage.double() for stage in stages]
    x = torch.randn(8, 6, dtype=torch.float64)
    for keep_output in (True, False):
        parts = copy.deepcopy(stages)
        whole = nn.Sequential(*parts)
        rescalers = [
            confirmed(
                swr.SoftWeightRescaling(
                    part, torch.randn(2, part_in, dtype=torch.float64), coefficient=0.5, keep_output=keep_output
                )
            )
            for part, part_in in zip(parts, (6, 5), strict=True)
        ]
        with torch.no_grad():
            for p in parts[0][0].parameters():
                p.mul_(2.0)
        weights = {name: p.detach().clone() for name, p in whole.named_parameters()}
        before = whole(x)
        for rescaler in rescalers:
            rescaler.step()
        after = whole(x)
        assert not torch.equal(weights["0.0.weight"], whole[0][0].weight)
        constant = (after * before).sum() / before.square().sum()
        deviation = ((after - constant * before).abs().max() / (constant * before).abs().max()).item()
        assert (deviation < 1e-12) if keep_output else (deviation > 1e-3)
