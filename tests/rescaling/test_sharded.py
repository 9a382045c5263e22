"""FSDP2 on two and three ranks: one all-reduce per rescale, the single process's weights, checkpoints onto another number of
ranks."""

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.nn.parallel import DistributedDataParallel

import swr
from loops import ranks, single
from loops.task import STOP, Span, batch, loss_of, network, optimizer_of, rescaler_of, rescales_of
from nets import cnn_bn, inputs_of, make, mlp

SAVED_BY = 2  # ranks that write the checkpoint; the others read it


def deep(layers=10):
    return nn.Sequential(*[m for _ in range(layers) for m in (nn.Linear(12, 12), nn.ReLU())], nn.Linear(12, 4))


def grown(model, factor=2.0):
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(factor)
    return model


def rescaled_once(model, shard, dtype=torch.float32, every=1, **aim):
    """A model, its weights doubled, after one rescale; and what that communicated."""
    model = model.to(dtype)
    rescaler = swr.SoftWeightRescaling(model, inputs_of(model), every=every, **(aim or {"coefficient": 0.5}))
    grown(model)
    shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    rescaler.attach(optimizer)
    rescaler.load_state_dict(rescaler.state_dict())  # the anchors are meant, although the weights were doubled
    with CommDebugMode() as counted:
        optimizer.step()
    counts = {str(kind): number for kind, number in counted.get_comm_counts().items()}
    return ranks.full(model), counts, rescaler.state_dict()


def ignoring_the_first_layer(world):
    def shard(model):
        mesh = init_device_mesh("cpu", (world,))
        fully_shard(model, mesh=mesh, ignored_params=set(model[0].parameters()))

    return shard


def from_meta(world):
    """Analysed on the meta device, sharded, materialised, initialised; the anchors are the norms it has then."""
    with torch.device("meta"):
        model = mlp()
    rescaler = swr.SoftWeightRescaling(model, torch.empty(2, 12), coefficient=0.5)
    ranks.sharded(model, world)
    try:
        rescaler.step()
        refused = ""
    except swr.ModelError as error:
        refused = str(error)
    model.to_empty(device="cpu")
    for i, p in enumerate(model.parameters()):
        nn.init.constant_(p, 0.1 * (i + 1))
    rescaler.attach(torch.optim.SGD(model.parameters(), lr=0.0))
    return refused, rescaler.state_dict()["anchors"], rescaler.norms()


def overflow_on_one_rank(rank, world):
    """The gradients of one layer overflow on one rank only; the step is skipped on all of them."""
    model = network()
    rescaler = rescaler_of(model)
    ranks.sharded(model, world)
    optimizer = optimizer_of(model)
    rescaler.attach(optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
    changed = []
    for overflow in (False, True, False):
        optimizer.zero_grad()
        x, y = batch(0)
        scaler.scale(loss_of(model(x), y)).backward()
        if overflow and rank == world - 1:
            model[2].weight.grad.to_local().fill_(torch.inf)
        before = ranks.full(model)
        scaler.step(optimizer)
        scaler.update()
        changed.append(any(not torch.equal(before[name], w) for name, w in ranks.full(model).items()))
    return changed, rescales_of(rescaler), ranks.full(model)


def refusals(world):
    found = []
    for wrap in (DistributedDataParallel, lambda m: ranks.sharded(m, world)):
        try:
            swr.analyze(wrap(network()), batch(0)[0])
        except swr.ModelError as error:
            found.append(str(error))
    return found


def everything(rank, world, checkpoint):
    mesh = init_device_mesh("cpu", (1, world), mesh_dim_names=("replicate", "shard"))
    flat = init_device_mesh("cpu", (world,))
    found = {
        "mlp": rescaled_once(make(mlp), lambda m: ranks.sharded(m, world)),
        "cnn_bn": rescaled_once(make(cnn_bn), lambda m: fully_shard(m, mesh=flat)),
        "deep": rescaled_once(make(deep), lambda m: ranks.sharded(m, world)),
        "hybrid": rescaled_once(make(mlp), lambda m: ranks.sharded(m, world, mesh=mesh)),
        "partly": rescaled_once(make(mlp), ignoring_the_first_layer(world)),
        "budget": rescaled_once(make(mlp), lambda m: ranks.sharded(m, world), growth=1.2),
        "bfloat16": rescaled_once(make(mlp), lambda m: ranks.sharded(m, world), torch.bfloat16),
        "mixed": ranks.fsdp(rank, world, Span(), whole_batches=True, precision=True),
        "meta": from_meta(world),
        "overflow": overflow_on_one_rank(rank, world),
        "refusals": refusals(world),
    }
    if world == SAVED_BY:
        ranks.fsdp(rank, world, Span(last=STOP, save=checkpoint), whole_batches=True)
    found["resumed"] = ranks.fsdp(rank, world, Span(first=STOP, resume=checkpoint), whole_batches=True)
    return found


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Everything that was found on two ranks, then on three."""
    folder = tmp_path_factory.mktemp("ranks")
    checkpoint = folder / "checkpoint"
    return {world: ranks.on_ranks(world, everything, checkpoint, folder=folder / str(world)) for world in (SAVED_BY, 3)}


@pytest.fixture(params=[2, 3], ids=["two ranks", "three ranks"])
def found(request, runs):
    return runs[request.param]


MODELS = {"mlp": mlp, "cnn_bn": cnn_bn, "deep": deep, "hybrid": mlp, "partly": mlp, "budget": mlp, "bfloat16": mlp}
AIMS = {"budget": {"growth": 1.2}}


@pytest.mark.parametrize("name", MODELS)
def test_a_sharded_rescale_is_the_single_processs(name, found):
    dtype = torch.bfloat16 if name == "bfloat16" else torch.float32
    expected, communicated, state = rescaled_once(make(MODELS[name]), lambda m: m, dtype, **AIMS.get(name, {}))
    assert not communicated
    start = dict(grown(make(MODELS[name]).to(dtype)).named_parameters())
    tolerance = 1e-2 if dtype is torch.bfloat16 else 1e-6
    for rank in found:
        weights, _, mine = rank[name]
        for key, value in expected.items():
            torch.testing.assert_close(weights[key], value, rtol=tolerance, atol=tolerance)
            assert key not in mine["anchors"] or not torch.equal(weights[key], start[key])
            assert torch.equal(weights[key], found[0][name][0][key]), "ranks differ"
        assert mine == found[0][name][2], "the ranks' states differ"
        for key, value in state["anchors"].items():
            assert mine["anchors"][key] == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("name", ["mlp", "cnn_bn", "deep", "hybrid", "partly", "budget"])
def test_one_all_reduce_per_rescale_however_many_layers(name, found):
    for rank in found:
        assert rank[name][1] == {"c10d_functional.all_reduce": 1}


def test_sixteen_bit_weights_need_a_second_all_reduce_for_what_rounding_achieved(found):
    for rank in found:
        assert rank["bfloat16"][1] == {"c10d_functional.all_reduce": 2}


def test_mixed_precision_follows_the_single_process(found, tmp_path):
    (single_rank,) = ranks.on_ranks(1, mixed_alone, folder=tmp_path)
    for rank in found:
        assert rank["mixed"].rescales == rank["mixed"].steps
        for key, value in single_rank.weights.items():
            torch.testing.assert_close(rank["mixed"].weights[key], value, rtol=1e-5, atol=1e-5)


def mixed_alone(rank, world):
    return ranks.fsdp(rank, world, Span(), whole_batches=True, precision=True)


def test_a_checkpoint_of_two_ranks_goes_on_on_two_and_three(found):
    straight = single.plain(Span())
    for rank in found:
        assert rank["resumed"].rescales == straight.rescales
        for key, value in straight.weights.items():
            torch.testing.assert_close(rank["resumed"].weights[key], value, rtol=2e-6, atol=2e-6)


def test_a_model_from_the_meta_device_has_the_norms_after_materialisation_as_anchors(found):
    refused, anchors, norms = found[0]["meta"]
    assert "still on the meta device" in refused
    assert anchors == norms
    assert anchors["0.weight"] == pytest.approx(0.1 * (12 * 16) ** 0.5, rel=1e-6)
    assert anchors["2.weight"] == pytest.approx(0.3 * 16, rel=1e-6)


def test_an_overflow_on_one_rank_skips_the_step_and_the_rescale_on_all(found):
    for rank in found:
        changed, rescales, weights = rank["overflow"]
        assert changed == [True, False, True]
        assert rescales == 2
        for key, value in weights.items():
            assert torch.equal(value, found[0]["overflow"][2][key])


def test_models_that_are_wrapped_already_are_refused_with_the_way_out(found):
    ddp, fsdp = found[0]["refusals"]
    assert "the model is already wrapped by DistributedDataParallel; analyse the plain model first" in ddp
    assert "already wrapped by fully_shard; analyse the plain model first" in fsdp
