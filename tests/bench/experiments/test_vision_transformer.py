"""The small vision transformer."""

import pytest
import torch
import torch.nn.functional as F

import swr
from swr.bench.experiments import find_column
from swr.bench.experiments.models import build
from swr.bench.experiments.vision_transformer import VisionTransformer
from swr.errors import OptionError


def tiny() -> VisionTransformer:
    return VisionTransformer((3, 8, 12), 5, patch=4, width=6, depth=2, heads=3)


def test_the_number_of_parameters_is_that_of_the_formula():
    block = 2 * 2 * 96 + 3 * 96 * 96 + (96 * 96 + 96) + (96 * 384 + 384) + (384 * 96 + 96)
    for classes in (10, 100):
        wanted = (192 * 96 + 96) + 96 + 17 * 96 + 4 * block + 2 * 96 + (96 + 1) * classes
        assert sum(p.numel() for p in build("vit", (3, 32, 32), classes).parameters()) == wanted


def test_patches_are_embedded_as_a_convolution_does():
    model, images = tiny(), torch.randn(2, 3, 8, 12)
    seen = []
    model.embedding.register_forward_hook(lambda module, inputs, output: seen.append(output))
    assert model(images).shape == (2, 5)
    kernel = model.embedding.weight.view(6, 3, 4, 4)
    wanted = F.conv2d(images, kernel, model.embedding.bias, stride=4).flatten(2).transpose(1, 2)
    torch.testing.assert_close(seen[0], wanted)


def test_a_block_is_attention_then_an_mlp_each_added_to_its_input():
    block, x = tiny().blocks[0], torch.randn(2, 7, 6)
    q, k, v = (layer(block.attention_norm(x)).view(2, 7, 3, 2) for layer in (block.q, block.k, block.v))
    scores = torch.einsum("bihd,bjhd->bhij", q, k) / 2**0.5
    y = x + block.out(torch.einsum("bhij,bjhd->bihd", scores.softmax(-1), v).reshape(2, 7, 6))
    torch.testing.assert_close(block(x), y + block.down(F.gelu(block.up(block.mlp_norm(y)))))


def test_images_must_be_whole_patches():
    with pytest.raises(OptionError, match="sides are multiples of 8, found 28x28"):
        build("vit", (1, 28, 28), 10)


def test_its_plan_is_proven():
    model, images = tiny().double(), torch.randn(3, 3, 8, 12, dtype=torch.float64)
    plan = swr.analyze(model, images)
    assert {name.split(".")[-2] for name in plan.weights} >= {"embedding", "q", "k", "v", "out", "up", "down", "head"}
    assert plan.verify(model, images) < 1e-9


def test_swr_has_one_coefficient_and_gradients_are_clipped_on_every_column_with_it():
    for name in ("cifar10-vit", "cifar100-vit", "digits-vit"):
        assert not find_column(name).normalised
        assert find_column(name).clip == 0.5
    assert find_column("cifar10-cnn").clip is None
