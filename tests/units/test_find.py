"""Units and their consumers: what the graph says is held against what the network does."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from swr.bench.experiments import models
from swr.units import UnitLayer, find_units
from zoo import ZOO, Network
from zoo.probe import floating_outputs
from zoo.sequences import Encoder
from zoo.vision import BasicBlock, Bottleneck, ResNet

BY_NAME = {network.name: network for network in ZOO}

WITHOUT_UNITS = {
    "cnn groupnorm", "mlp layernorm", "mlp layernorm, not affine", "mlp layernorm by hand", "mlp rmsnorm",
    "mlp rmsnorm by hand", "weight_norm", "spectral_norm", "weight standardisation", "llama", "relative positions",
    "multi-query attention by einsum", "attention pooling", "lstm", "gru", "relu recurrence by hand", "a module used twice",
    "a module used twice, no bias", "siamese", "a frozen weight", "low-rank adaptation", "tied autoencoder",
    "residual without norm", "cosine head", "contrastive", "gated linear unit", "sigmoid gate", "largest branch",
    "chosen branch", "learned interpolation", "scattered product", "filled with ones", "bins", "learned dropout",
    "one parameter scales and shifts", "zero through a biased layer", "mixture of experts", "hypernetwork", "parameter list",
}  # fmt: skip
"""every hidden unit of these is mixed with others, shared or computed"""


def entries(model: nn.Module, slices, chosen: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Tensors of the model with the entries that belong to the chosen units."""
    found = []
    for part in slices:
        owner, _, name = part.name.rpartition(".")
        tensor = getattr(model.get_submodule(owner), name).data
        found.append((tensor, part.mask(chosen).expand(tensor.shape)))
    return found


def incoming(model: nn.Module, layer: UnitLayer, chosen: Tensor) -> list[tuple[Tensor, Tensor]]:
    weight = model.get_parameter(layer.weight).data
    shape = [-1 if axis == layer.axis else 1 for axis in range(weight.ndim)]
    found = [(weight, chosen.reshape(shape).expand(weight.shape))]
    if layer.bias is not None:
        found.append((model.get_parameter(layer.bias).data, chosen))
    return found + entries(model, (*layer.gains, *layer.shifts), chosen)


class Probe:
    """Runs a network on one batch with parts of it changed, and puts them back."""

    def __init__(self, model: nn.Module, inputs: tuple[Tensor, ...]):
        self.model, self.inputs = model, inputs
        self.state = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    def __call__(self) -> Tensor:
        torch.manual_seed(0)
        with torch.no_grad():
            return torch.cat([out.flatten().double() for out in floating_outputs(self.model, self.inputs)])

    def activation(self, layer: UnitLayer) -> Tensor:
        seen = []
        module = self.model.get_submodule(layer.site.module)
        hook = module.register_forward_hook(lambda m, i, out: seen.append(layer.site.activation(out.detach())))
        self()
        hook.remove()
        (found,) = seen
        return found.movedim(layer.site.axis, -1)

    def restore(self) -> None:
        self.model.load_state_dict(self.state)


def check(model: nn.Module, inputs: tuple[Tensor, ...], layer: UnitLayer) -> bool:
    """Whether a unit of the layer could be made silent, so that all three claims were tested."""
    probe = Probe(model, inputs)
    chosen = torch.arange(layer.size) % 2 == 0
    before = probe()

    for tensor, mask in incoming(model, layer, chosen):
        tensor[mask] += 0.5 + torch.rand_like(tensor[mask])
    matters = not torch.allclose(probe(), before, rtol=1e-9, atol=1e-12)
    probe.restore()

    for tensor, mask in entries(model, layer.consumers, chosen):
        tensor[mask] = 0
    without = probe()
    for tensor, mask in incoming(model, layer, chosen):
        tensor[mask] += 0.5 + torch.rand_like(tensor[mask])
    torch.testing.assert_close(probe(), without, rtol=1e-9, atol=1e-12)  # all that leaves the units was cut
    probe.restore()

    for tensor, mask in incoming(model, layer, chosen):
        tensor[mask] = 0
    activation = probe.activation(layer)
    assert activation.shape[-1] == layer.size
    silent = bool(activation[..., chosen].eq(0).all())
    if silent:
        silenced = probe()
        for tensor, mask in entries(model, layer.consumers, chosen):
            tensor[mask] += 1.0
        torch.testing.assert_close(probe(), silenced, rtol=1e-9, atol=1e-12)  # and nothing else was
    probe.restore()
    return matters and silent


@pytest.mark.parametrize(
    "network",
    [
        pytest.param(network, id=network.name, marks=[pytest.mark.slow] if network.name in WITHOUT_UNITS else [])
        for network in ZOO
    ],
)
def test_cutting_what_leaves_a_unit_makes_the_output_independent_of_it(network: Network):
    model, inputs = network.make(), network.inputs()
    units = find_units(model, inputs)
    assert bool(units.layers) == (network.name not in WITHOUT_UNITS)
    tested = {layer.name: check(model, inputs, layer) for layer in units.layers}
    assert all(tested.values()) == (network.name != "resnet with zero gains")  # where no inner unit matters yet
    for name, reason in units.left_alone.items():
        assert name
        assert reason
    assert not {layer.name for layer in units.layers} & set(units.left_alone)


def consumer(model: nn.Module, inputs: Tensor, name: str = "0") -> Tensor:
    """The unit of each entry of the one weight that reads a layer."""
    (layer,) = (layer for layer in find_units(model, inputs).layers if layer.name == name)
    (part,) = layer.consumers
    return part.units


def test_columns_behind_a_flatten_are_channel_major():
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 2))
    assert consumer(model, torch.zeros(2, 1, 6, 6)).tolist() == [[0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]]


def test_columns_behind_a_channels_last_flatten_are_strided():
    class Last(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return self[1](F.relu(self[0](x)).permute(0, 2, 3, 1).flatten(1))

    model = Last(nn.Conv2d(1, 3, 3), nn.Linear(12, 2))
    assert consumer(model, torch.zeros(2, 1, 4, 4)).tolist() == [[0, 1, 2] * 4]


@pytest.mark.parametrize("pool", [nn.AdaptiveAvgPool2d(1), nn.AdaptiveMaxPool2d(1)])
def test_behind_a_global_pool_a_channel_has_one_column(pool: nn.Module):
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), pool, nn.Flatten(), nn.Linear(3, 2))
    assert consumer(model, torch.zeros(2, 1, 4, 4)).tolist() == [[0, 1, 2]]


def test_a_grouped_convolution_reads_a_channel_in_its_group_only():
    model = nn.Sequential(nn.Conv2d(1, 4, 1), nn.ReLU(), nn.Conv2d(4, 6, 1, groups=2))
    units = consumer(model, torch.zeros(2, 1, 2, 2))
    assert units.flatten(1).tolist() == [[0, 1]] * 3 + [[2, 3]] * 3


def test_a_depthwise_convolution_reads_a_channel_in_its_row_and_goes_on_with_units_of_its_own():
    model = nn.Sequential(nn.Conv2d(1, 3, 1), nn.ReLU(), nn.Conv2d(3, 3, 3, groups=3), nn.ReLU(), nn.Conv2d(3, 2, 1))
    inputs = torch.zeros(2, 1, 4, 4)
    assert consumer(model, inputs).flatten().tolist() == [0, 1, 2]
    assert consumer(model, inputs, "2").flatten().tolist() == [0, 1, 2]


def test_a_transposed_convolution_has_its_units_along_the_second_axis():
    model = nn.Sequential(nn.ConvTranspose2d(1, 3, 2), nn.ReLU(), nn.ConvTranspose2d(3, 2, 2))
    (layer,) = find_units(model, torch.zeros(2, 1, 4, 4)).layers
    assert layer.axis == 1
    assert layer.consumers[0].units.shape == (3, 1, 1, 1)


def test_a_module_that_multiplies_from_the_right_has_units_too():
    class Conv1D(nn.Module):
        """A linear layer with [in, out] weights, as in GPT-2."""

        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(inputs, outputs)), nn.Parameter(torch.zeros(outputs))

        def forward(self, x: Tensor) -> Tensor:
            return torch.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)

    class MLP(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = Conv1D(4, 6), Conv1D(6, 4)

        def forward(self, x: Tensor) -> Tensor:
            return x + self.down(F.gelu(self.up(x)))

    model, inputs = MLP().double(), torch.randn(2, 5, 4, dtype=torch.float64)
    units = find_units(model, inputs)
    (layer,) = units.layers
    assert (layer.name, layer.axis, layer.site.module, layer.site.operators) == ("up", 1, "up", ("gelu",))
    assert check(model, (inputs,), layer)
    other = torch.randn(3, 7, 4, dtype=torch.float64)  # another batch size and length than was traced
    torch.testing.assert_close(Probe(model, (other,)).activation(layer), F.gelu(model.up(other)).detach())


@pytest.mark.parametrize(  # the transformer has no ReLU, and an agent is several networks
    "name", [name for name, model in models.MODELS.items() if name != "vit" and model.agent is None]
)
def test_all_hidden_layers_of_the_papers_networks_are_found(name: str):
    shape = (1, 32, 32) if name.startswith("vgg16") else (1, 18, 18)
    if name == "vgg16":
        model = models.vgg16(shape, 5, widths=[w // 16 for w in models.VGG16], hidden=24)
    else:
        model = models.build(name, shape, 5)
    units = find_units(model, torch.zeros(2, *shape))
    layers = [n for n, m in model.named_modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    assert [layer.name for layer in units.layers] == layers[:-1]
    assert units.left_alone == {layers[-1]: "it is an output of the model"}
    for layer in units.layers:
        assert isinstance(model.get_submodule(layer.site.module), nn.ReLU)
        assert layer.site.nonnegative
        expected = isinstance(model.get_submodule(layer.name), nn.Conv2d) and models.MODELS[name].normalised
        assert [len(x) for x in (layer.gains, layer.shifts, layer.means, layer.variances)] == [int(expected)] * 4


@pytest.mark.parametrize(("block", "inner"), [(BasicBlock, ("conv1",)), (Bottleneck, ("conv1", "conv2"))])
def test_of_a_residual_block_only_the_inner_channels_are_recyclable(block: type[nn.Module], inner: tuple[str, ...]):
    model = ResNet(block)
    units = find_units(model, torch.zeros(2, 3, 16, 16))
    found = {layer.name for layer in units.layers}
    blocks = [f"layer{i}.{j}" for i in (1, 2) for j in (0, 1)]
    stem = {"conv1"} if block is Bottleneck else set()  # its first block projects the stem's stream away
    assert found == {f"{b}.{conv}" for b in blocks for conv in inner} | stem
    assert "joins it with something else" in units.left_alone["layer1.0.conv3" if stem else "layer1.0.conv2"]
    for layer in units.layers:
        assert layer.site.operators == ("relu",)
        assert isinstance(model.get_submodule(layer.site.module), nn.BatchNorm2d)


def test_of_a_pre_norm_transformer_the_hidden_units_of_its_mlps_are_recyclable():
    units = find_units(Encoder("relu", norm_first=True), torch.zeros(2, 7, 6))
    assert [layer.name for layer in units.layers] == ["encoder.layers.0.linear1", "encoder.layers.1.linear1"]
    assert "attention" in units.left_alone["encoder.layers.0.self_attn"]
    assert "left alone" in units.describe()


def test_a_unit_can_leave_through_several_weights():
    units = find_units(BY_NAME["u-net"].make(), BY_NAME["u-net"].inputs())
    (layer,) = (layer for layer in units.layers if layer.name == "enter.2")
    assert [part.name for part in layer.consumers] == ["down.1.weight", "merge2.0.weight"]
    assert layer.consumers[1].units.flatten().tolist() == [0, 1, 2, 3, 4, 5, -1, -1, -1, -1, -1, -1]


@pytest.mark.parametrize(
    ("network", "layer", "reason"),
    [
        ("mlp", "4", "an output"),
        ("mlp layernorm", "4", "layer_norm at 5 mixes it"),
        ("weight_norm", "0", "computed"),
        ("a module used twice", "fc2", "more than one place"),
        ("a module used twice", "fc1", "the weight of linear at fc2 is used in more than one place"),
        ("tied autoencoder", "encoder", "more than one place"),
        ("a frozen weight", "fc2", "frozen"),
        ("residual without norm", "fc1", "add at the model joins it"),
        ("gated linear unit", "value", "mul at the model joins it"),
        ("temperature", "fc2", "div at the model joins it"),
    ],
)
def test_what_is_left_alone_has_a_reason(network: str, layer: str, reason: str):
    entry = BY_NAME[network]
    assert reason in find_units(entry.make(), entry.inputs()).left_alone[layer]


class Custom(nn.Module):
    def __init__(self, between) -> None:
        super().__init__()
        self.fc1, self.fc2, self.between = nn.Linear(4, 6), nn.Linear(6, 2), between

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.between(self.fc1(x)))


@torch.library.custom_op("units::shuffled", mutates_args=())
def shuffled(x: Tensor) -> Tensor:
    return x.flip(-1)


@shuffled.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@pytest.mark.parametrize(
    "between",
    [
        shuffled,
        lambda x: x.sort(-1).values,
        lambda x: F.normalize(x, dim=-1),
        lambda x: x - x.mean(-1, keepdim=True),
        lambda x: x.relu() * x.relu().flip(-1),
        lambda x: x[:, torch.tensor([1, 0, 2, 3, 4, 5])],
    ],
)
def test_an_operator_that_mixes_or_is_not_known_leaves_a_layer_alone(between):
    units = find_units(Custom(between), torch.randn(3, 4))
    assert set(units.left_alone) == {"fc1", "fc2"}


def test_a_weight_of_the_model_itself_is_no_module_that_could_be_observed():
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight, self.head = nn.Parameter(torch.randn(6, 4)), nn.Linear(6, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(F.linear(x, self.weight).relu())

    assert "not that of a module" in find_units(Bare(), torch.randn(3, 4)).left_alone["weight"]


def test_a_module_that_is_used_again_is_not_hooked():
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.fc2, self.fc3, self.act = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return self.fc3(self.act(self.fc2(self.act(self.fc1(x)))))

    model, x = Shared(), torch.randn(3, 4)
    layers = find_units(model, x).layers
    assert [(layer.site.module, layer.site.operators) for layer in layers] == [("fc1", ("relu",)), ("fc2", ("relu",))]
    act = nn.GELU()
    model = nn.Sequential(nn.Linear(4, 4), act, nn.Linear(4, 4), act, nn.Linear(4, 2))  # one object under two names
    layers = find_units(model, x).layers
    assert [(layer.site.module, layer.site.operators) for layer in layers] == [("0", ("gelu",)), ("2", ("gelu",))]


def test_the_activation_is_seen_as_the_next_layer_reads_it():
    network = BY_NAME["functional activations"]
    model, inputs = network.make().eval(), network.inputs()
    read = {}
    for name in ("fc2", "fc3"):
        model.get_submodule(name).register_forward_pre_hook(lambda m, i, name=name: read.update({name: i[0]}))
    for layer, reader in zip(find_units(model, inputs).layers[1:], ("fc2", "fc3"), strict=True):
        torch.testing.assert_close(Probe(model, inputs).activation(layer), read[reader])


def test_batch_normalisation_is_hooked_and_not_computed_again():
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.bn, self.head = nn.Conv2d(1, 3, 1), nn.BatchNorm2d(3), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(F.relu(self.bn(self.conv(x))).mean((2, 3)))

    (layer,) = find_units(Functional(), torch.randn(4, 1, 3, 3)).layers
    assert (layer.site.module, layer.site.operators, layer.site.axis) == ("bn", ("relu",), -3)


def test_the_model_and_the_random_numbers_are_as_before():
    model = models.cnnbn((1, 18, 18), 5)
    before, state = {k: v.clone() for k, v in model.state_dict().items()}, torch.get_rng_state()
    find_units(model, torch.randn(2, 1, 18, 18, generator=torch.Generator()))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
