"""`attach` alone gives the same training as the penalty in the loss, in every kind of loop; both at once are refused."""

import copy
import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD, Adam, Optimizer

from loops import ranks
from swr import methods
from swr.errors import AttachError, ModelError, OptionError

from ..methods_table import CASES, Loop, same

PENALTIES = {
    "l2": 0.3,
    "l2-init": 0.3,
    "wasserstein": 0.1,
    "spectral-norm": 0.2,
    "spectral": 0.05,
    "effective-rank": 0.02,
    "parseval": 0.02,
}
BOTH = pytest.mark.parametrize("way", ["attached", "loss"])


def network(dtype: torch.dtype = torch.float64) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 3)).to(dtype)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.3)
    return model


def batch(number: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(number)
    return torch.randn(10, 6, generator=generator, dtype=dtype), torch.randint(3, (10,), generator=generator)


def adam(model: nn.Module) -> Optimizer:
    return Adam(model.parameters(), lr=0.02)


def built(name: str, make: Callable[[nn.Module], Optimizer], way: str, dtype: torch.dtype = torch.float64) -> tuple[Any, ...]:
    """A model, its optimizer, its method, and what a loop adds to its loss: nothing once it is attached."""
    model = network(dtype)
    with torch.no_grad():  # θ_0 of L2 Init and Wasserstein is not θ
        method = methods.build(name, model, coefficient=PENALTIES[name]) if name != "vanilla" else methods.Vanilla(model)
        for p in model.parameters():
            p.add_(0.1)
    optimizer = make(model)
    if way == "attached":
        method.attach(optimizer)

    def penalty() -> Tensor | float:
        found = method.penalty() if way == "loss" else None
        return 0.0 if found is None else found

    return model, optimizer, method, penalty


def plain(model: nn.Module, optimizer: Optimizer, penalty: Callable[[], Any]) -> None:
    for number in range(4):
        x, y = batch(number)
        loss = F.cross_entropy(model(x), y) + penalty()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def unset_between(model: nn.Module, optimizer: Optimizer, penalty: Callable[[], Any]) -> None:
    """Gradients are cleared before the pass, as many loops do, and set to zero instead of None."""
    for number in range(4):
        optimizer.zero_grad(set_to_none=False)
        x, y = batch(number)
        (F.cross_entropy(model(x), y) + penalty()).backward()
        optimizer.step()


def with_closures(model: nn.Module, optimizer: Optimizer, penalty: Callable[[], Any]) -> None:
    for number in range(3):
        x, y = batch(number)

        def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y) + penalty()
            loss.backward()
            return loss

        optimizer.step(closure)


def clipped(model: nn.Module, optimizer: Optimizer, penalty: Callable[[], Any]) -> None:
    """Under a GradScaler, gradients are unscaled by hand before the step."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for number in range(4):
        x, y = batch(number, torch.float32)
        loss = F.cross_entropy(model(x), y) + penalty()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()


def scaled(model: nn.Module, optimizer: Optimizer, penalty: Callable[[], Any]) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for number in range(4):
        x, y = batch(number, torch.float32)
        loss = F.cross_entropy(model(x), y) + penalty()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def cast(model: nn.Module, optimizer: Optimizer, penalty: Callable[[], Any]) -> None:
    for number in range(4):
        x, y = batch(number, torch.float32)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(x), y) + penalty()
            loss.backward()
            optimizer.step()  # inside, where a careless penalty would be computed in half precision


def groups(model: nn.Module) -> Optimizer:
    parameters = list(model.parameters())
    return SGD([{"params": parameters[:3], "lr": 0.01}, {"params": parameters[3:], "lr": 0.05}], lr=0.1, momentum=0.9)


def fused(model: nn.Module) -> Optimizer:
    return Adam(model.parameters(), lr=0.02, fused=True)


def lbfgs(model: nn.Module) -> Optimizer:
    return torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4, line_search_fn="strong_wolfe")


LOOPS: dict[str, tuple[Callable[[nn.Module], Optimizer], Callable[..., None], torch.dtype, float]] = {
    "adam": (adam, plain, torch.float64, 1e-9),
    "several groups": (groups, plain, torch.float64, 1e-9),
    "gradients set to zero": (adam, unset_between, torch.float64, 1e-9),
    "closures": (adam, with_closures, torch.float64, 1e-9),
    "a line search": (lbfgs, with_closures, torch.float64, 1e-7),
    "a gradient scaler": (adam, scaled, torch.float32, 1e-4),
    "a gradient scaler, fused": (fused, scaled, torch.float32, 1e-4),
    "unscaled by hand": (adam, clipped, torch.float32, 1e-4),
    "unscaled by hand, fused": (fused, clipped, torch.float32, 1e-4),
    "autocast": (groups, cast, torch.float32, 5e-2),
}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", PENALTIES)
def test_attached_is_the_penalty_in_the_loss(name: str, loop: str):
    make, train, dtype, tolerance = LOOPS[loop]
    found = {}
    for way, method in (("attached", name), ("loss", name), ("vanilla", "vanilla")):
        model, optimizer, _, penalty = built(method, make, way, dtype)
        train(model, optimizer, penalty)
        found[way] = torch.cat([p.detach().flatten() for p in model.parameters()])
    distance = torch.linalg.vector_norm(found["loss"] - found["vanilla"])
    assert distance > 1e-3
    assert torch.linalg.vector_norm(found["attached"] - found["loss"]) < tolerance * distance


@pytest.mark.parametrize("name", PENALTIES)
def test_accumulated_gradients_get_it_once_a_step(name: str):
    """The penalty of activations is the mean over the passes, as that of the loss is; any other does not depend on them."""
    found = {}
    for way in ("attached", "loss"):
        model, optimizer, method, _ = built(name, adam, way)
        for step in range(3):
            optimizer.zero_grad()
            for micro in range(4):
                x, y = batch(10 * step + micro)
                loss = F.cross_entropy(model(x), y) / 4
                if way == "loss" and name == "effective-rank":
                    loss = loss + method.penalty() / 4
                elif way == "loss" and micro == 3:
                    loss = loss + method.penalty()
                loss.backward()
            optimizer.step()
        found[way] = torch.cat([p.detach().flatten() for p in model.parameters()])
    torch.testing.assert_close(found["attached"], found["loss"], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PENALTIES)
def test_a_parameter_frozen_later_stays_and_one_unfrozen_moves_again(name: str):
    model, optimizer, _, penalty = built(name, adam, "attached")
    plain(model, optimizer, penalty)
    model[0].requires_grad_(False)
    before = copy.deepcopy(model.state_dict())
    optimizer.zero_grad()
    plain(model, optimizer, penalty)
    assert torch.equal(model[0].weight, before["0.weight"])
    assert model[0].weight.grad is None
    assert not torch.equal(model[3].weight, before["3.weight"])
    model[0].requires_grad_(True)
    plain(model, optimizer, penalty)
    assert not torch.equal(model[0].weight, before["0.weight"])


@pytest.mark.parametrize("name", [name for name in PENALTIES if name != "effective-rank"])
def test_a_parameter_that_the_loss_does_not_depend_on_is_moved_as_by_a_loss_term(name: str):
    found = []
    for way in ("attached", "loss"):
        model, optimizer, _, penalty = built(name, groups, way)
        before = model[3].weight.detach().clone()
        loss = model[0](batch(0)[0]).square().mean() + penalty()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        assert not torch.equal(model[3].weight, before)
        found.append(model[3].weight.detach())
    torch.testing.assert_close(*found, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PENALTIES)
def test_only_parameters_of_the_optimizer_are_moved_and_a_group_added_later_is_one_of_them(name: str):
    model, optimizer, _, penalty = built(name, lambda model: SGD(model[0].parameters(), lr=0.1), "attached")
    before = copy.deepcopy(model.state_dict())
    plain(model, optimizer, penalty)
    assert torch.equal(model[3].weight, before["3.weight"])
    optimizer.add_param_group({"params": list(model[3].parameters())})
    plain(model, optimizer, penalty)
    after = copy.deepcopy(model.state_dict())
    other, reference, _, penalty = built(name, lambda model: SGD(model[0].parameters(), lr=0.1), "loss")
    plain(other, reference, penalty)
    reference.add_param_group({"params": list(other[3].parameters())})
    plain(other, reference, penalty)
    for key, value in other.state_dict().items():
        torch.testing.assert_close(after[key], value, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("name", PENALTIES)
def test_both_at_once_are_refused(name: str):
    model, optimizer, method, _ = built(name, adam, "loss")
    handle = method.attach(optimizer)
    with pytest.raises(AttachError, match="would count it twice"):
        method.penalty()
    handle.remove()
    model(batch(0)[0])
    assert method.penalty() is not None
    method.attach(optimizer, penalty="loss")
    model(batch(0)[0])
    assert method.penalty() is not None
    with pytest.raises(OptionError, match="penalty must be 'gradients' or 'loss'"):
        methods.L2(model, coefficient=1.0).attach(optimizer, penalty="both")


@pytest.mark.parametrize("name", PENALTIES)
def test_attached_for_the_loss_the_optimizer_adds_nothing(name: str):
    model, optimizer, method, penalty = built(name, adam, "loss")
    method.attach(optimizer, penalty="loss")
    plain(model, optimizer, penalty)
    other, reference, _, penalty = built(name, adam, "loss")
    plain(other, reference, penalty)
    assert same(model.state_dict(), other.state_dict())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attach_alone_makes_every_method_act(case: Any):
    loop, vanilla = Loop("cnnbn", case.name, case.hyper), Loop("cnnbn", "vanilla", {})
    for one in (loop, vanilla):
        for number in itertools.chain(range(3), range(3)):
            x, y = one.batch(number)
            one.optimizer.zero_grad()
            F.cross_entropy(one.model(x), y).backward()
            one.optimizer.step()
        one.new_task()
    acts = case.steps or case.tasks
    assert same(loop.tensors(), vanilla.tensors()) != acts
    x = one.batch(0)[0]
    assert torch.equal(loop.model.eval()(x), vanilla.model.eval()(x)) == (case.name == "vanilla")  # an average acts there only


def data_parallel(rank: int, world: int, name: str, way: str) -> dict[str, Tensor]:
    model, _, method, penalty = built(name, adam, "loss")
    wrapped = DistributedDataParallel(model)
    optimizer = adam(model)
    if way == "attached":
        method.attach(optimizer)
    for number in range(3):
        x, y = batch(number)
        loss = F.cross_entropy(wrapped(x[rank::world]), y[rank::world])
        optimizer.zero_grad()
        (loss + (penalty() if way == "loss" else 0.0)).backward()
        optimizer.step()
    return {key: value.clone() for key, value in model.state_dict().items()}


def every_penalty(rank: int, world: int) -> dict[str, dict[str, Tensor]]:
    return {f"{name} {way}": data_parallel(rank, world, name, way) for name in PENALTIES for way in ("attached", "loss")}


def test_data_parallel_replicas_stay_equal_and_train_as_with_the_penalty_in_the_loss(tmp_path):
    first, second = ranks.on_ranks(2, every_penalty, folder=tmp_path)
    for name in PENALTIES:
        assert same(first[f"{name} attached"], second[f"{name} attached"]), name
        for key, value in first[f"{name} loss"].items():
            torch.testing.assert_close(first[f"{name} attached"][key], value, rtol=1e-9, atol=1e-12, msg=name)


class Ridge(methods.Method):
    """A user's penalty: λ Σ ‖θ‖⁴."""

    title = "ridge"

    def penalty(self) -> Tensor:
        return 0.1 * sum(p.square().sum() ** 2 for p in self.model.parameters())


class Activity(methods.Method):
    """A user's penalty of activations."""

    title = "activity"

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, seed: int = 0) -> None:
        super().__init__(model, example_inputs, seed=seed)
        model.register_forward_hook(lambda module, inputs, output: setattr(self, "output", output))

    def penalty(self) -> Tensor:
        return self.output.square().mean()


def test_a_penalty_of_ones_own_needs_attach_alone_and_is_refused_twice():
    found = []
    for way in ("attached", "loss"):
        model = network()
        optimizer, method = adam(model), Ridge(model)
        if way == "attached":
            method.attach(optimizer)
            with pytest.raises(AttachError, match="would count it twice"):
                method.penalty()
        plain(model, optimizer, method.penalty if way == "loss" else lambda: 0.0)
        found.append(model.state_dict())
    for key, value in found[0].items():
        torch.testing.assert_close(value, found[1][key], rtol=1e-9, atol=1e-12)


def test_a_penalty_of_activations_of_ones_own_says_that_it_belongs_into_the_loss():
    model = network()
    optimizer, method = adam(model), Activity(model)
    handle = method.attach(optimizer)
    with pytest.raises(AttachError, match=r'depends on activations, call attach\(optimizer, penalty="loss"\)'):
        plain(model, optimizer, lambda: 0.0)
    handle.remove()
    method.attach(optimizer, penalty="loss")
    plain(model, optimizer, method.penalty)


@pytest.mark.parametrize("name", ["l2", "parseval", "effective-rank"])
def test_replaced_parameters_are_an_error(name: str):
    model, _, method, _ = built(name, adam, "loss")
    for module in (model[0], model[3], model[5]):
        module.weight, module.bias = nn.Parameter(module.weight.detach()), nn.Parameter(module.bias.detach())
    model[1].requires_grad_(False)
    optimizer = adam(model)
    if name != "l2":
        model[1] = nn.Identity()
        method.attach(optimizer)
        if name == "parseval":
            with pytest.raises(AttachError, match="depends on none of the parameters"):
                plain(model, optimizer, lambda: 0.0)
        else:
            plain(model, optimizer, lambda: 0.0)  # reads the parameters of the moment
        return
    model[1] = nn.LayerNorm(8, dtype=torch.float64)
    method.attach(optimizer := adam(model))
    with pytest.raises(AttachError, match="holds none of the parameters"):
        plain(model, optimizer, lambda: 0.0)


def test_features_that_are_never_seen_are_an_error():
    model, optimizer, method, _ = built("effective-rank", adam, "attached")
    other = copy.deepcopy(model)
    for _ in range(99):
        other(batch(0)[0]).sum().backward()
        optimizer.step()
    with pytest.raises(ModelError, match="100 steps without a training pass"):
        optimizer.step()
    method.close()


def test_compiled_features_are_refused_at_the_first_step_and_work_in_the_loss():
    model, optimizer, method, _ = built("effective-rank", adam, "loss")
    compiled = torch.compile(model, backend="eager")
    handle = method.attach(optimizer)
    compiled(batch(0)[0]).sum().backward()
    with pytest.raises(AttachError, match="was compiled"):
        optimizer.step()
    handle.remove()
    method.attach(optimizer, penalty="loss")
    compiled(batch(0)[0])
    assert method.penalty() is not None


@BOTH
def test_the_closure_loss_counts_the_penalty_once(way: str):
    model, optimizer, method, penalty = built("parseval", lbfgs, way)
    x, y = batch(0)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y) + penalty()
        loss.backward()
        return loss

    expected = F.cross_entropy(model(x), y) + method.coefficient * method.value()
    torch.testing.assert_close(optimizer.step(closure), expected)


def test_a_sparse_gradient_becomes_dense():
    embedding = nn.Embedding(4, 3, sparse=True)
    optimizer = SGD(embedding.parameters(), lr=1.0)
    methods.L2(embedding, coefficient=0.5).attach(optimizer)
    before = embedding.weight.detach().clone()
    embedding(torch.tensor([1])).sum().backward()
    optimizer.step()
    expected = 0.5 * before
    expected[1] -= 1
    torch.testing.assert_close(embedding.weight.detach(), expected)
