"""The two parts of L2 under Adam, of `examples/radial_tangential.py`."""

from pathlib import Path

import pytest
import torch
from torch import nn

from swr.bench import experiments, training
from swr.errors import AttachError
from swr.methods import build, registry

ROOT = Path(__file__).parents[2]
TANGENTIAL, RADIAL = (f"examples.radial_tangential:{name}" for name in ("TangentialL2", "RadialL2"))


@pytest.fixture(autouse=True)
def found(monkeypatch):
    """The bench finds modules of the folder it runs in."""
    monkeypatch.syspath_prepend(ROOT)


def moved(name: str | None, optimizer_class=torch.optim.Adam) -> torch.Tensor:
    """W = (3, 4) after a step with the gradient (1, 2)."""
    layer = nn.Linear(2, 1, bias=False)
    layer.weight.data = torch.tensor([[3.0, 4.0]])
    optimizer = optimizer_class(layer.parameters(), lr=0.1)
    if name is not None:
        build(name, layer, coefficient=0.5).attach(optimizer)
    layer.weight.grad = torch.tensor([[1.0, 2.0]])
    optimizer.step()
    return layer.weight.detach()[0]


def test_the_parts_by_hand():
    assert moved(None).tolist() == pytest.approx([2.9, 3.9])  # Adam's first step has the length η in every entry
    w = torch.tensor([2.9, 3.9])
    d = torch.tensor([1.45 / (1 + 1.45**2) ** 0.5, 1.95 / (4 + 1.95**2) ** 0.5])  # √v̂ = |g| = (1, 2): (0.8232, 0.6981)
    along = (0.82321 * 2.9 + 0.69810 * 3.9) / (2.9**2 + 3.9**2) * w  # 0.21634 W
    assert along.tolist() == pytest.approx([0.62738, 0.84372], abs=1e-4)
    assert moved(RADIAL).tolist() == pytest.approx((w - 0.1 * along).tolist(), abs=1e-5)
    assert moved(TANGENTIAL).tolist() == pytest.approx((w - 0.1 * (d - along)).tolist(), abs=1e-5)


def test_the_tangential_part_is_orthogonal_and_the_radial_one_parallel():
    plain = moved(None)
    turned, shortened = moved(TANGENTIAL) - plain, moved(RADIAL) - plain
    assert turned.norm() > 0.01
    assert abs(turned @ plain) < 1e-5
    assert torch.allclose(shortened / plain, (shortened / plain)[0].expand(2))


def test_the_two_parts_together_are_about_l2_also_where_the_loss_has_no_gradient():
    def trained(name: str, **hyper: float) -> torch.Tensor:
        torch.manual_seed(0)
        layer = nn.Linear(20, 5, bias=False)
        optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
        if name:
            build(name, layer, **hyper).attach(optimizer)
        for number in range(300):
            x = torch.randn(32, 20, generator=torch.Generator().manual_seed(number))
            x[:, :5] = 0  # inputs that are always off
            optimizer.zero_grad()
            nn.functional.cross_entropy(layer(x), x[:, 5:10].argmax(1)).backward()
            optimizer.step()
        return layer.weight.detach()

    plain, l2 = trained(""), trained("l2", coefficient=0.03)
    both = trained(f"{RADIAL}+{TANGENTIAL}", **{f"{RADIAL}.coefficient": 0.03, f"{TANGENTIAL}.coefficient": 0.03})
    assert l2.norm() < 0.7 * plain.norm()
    assert (both - l2).norm() < 0.1 * plain.norm()
    assert both[:, :5].abs().max() < 0.05 < plain[:, :5].abs().max()


def test_an_optimizer_without_a_second_moment_is_refused():
    with pytest.raises(AttachError, match="SGD has no second moment"):
        moved(TANGENTIAL, lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, momentum=0.9))


def test_it_runs_in_the_bench_alone_and_with_swr(tmp_path):
    names = [TANGENTIAL, f"swr+{TANGENTIAL}"]
    configs = experiments.expand("permuted-pixels", columns=["digits-mlp"], methods=names, seeds=1, epochs_scale=0.01)
    assert [config.hyper for config in configs] == [(), (("swr.coefficient", 0.01),)]
    registry.find(names[1])
    assert configs[1].title == "SWR + tangential L2"
    norms = []
    for config in configs:
        epochs = training.run(config, tmp_path / f"{config.identity}.pt")
        norms.append(epochs[-1].norms["1.weight"])
    assert norms[0] != norms[1]
