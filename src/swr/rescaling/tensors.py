"""The tensors of a model that a rescale multiplies, and the factors that their precision can take."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from swr.algebra.blocks import Block
from swr.norms import Norms
from swr.sharding import as_sharded, local


class ScaledTensors:
    """The tensors of a model that a rescale touches, grouped by device and precision so that one call serves each.

    Parameters are those the model has now; buffers are looked up each time, since moving a model replaces them, and blocks are
    views that are made each time. Of sharded parameters, each rank multiplies its own part.

    Args:
        model: the model that has the tensors.
        names: of parameters, their blocks and buffers.

    Attributes:
        names: the tensors' names, group by group.
        dtype: their precision where it is one and the same, on one device; otherwise None.
    """

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
        groups: dict[tuple[torch.device, torch.dtype], list[str]] = {}
        known: dict[str, Tensor] = {**buffers, **parameters}
        blocks = {name: block for name in names if name not in known and (block := Block.named(name)) is not None}
        owner = {name: blocks[name].parameter if name in blocks else name for name in names}
        for name in names:
            tensor = known[owner[name]]
            groups.setdefault((tensor.device, tensor.dtype), []).append(name)
        self.names = tuple(name for group in groups.values() for name in group)
        self.dtype = next(iter(groups))[1] if len(groups) == 1 else None
        self._parameters = [parameters.get(owner[name]) for name in self.names]
        self._blocks = [(i, blocks[name], known[owner[name]]) for i, name in enumerate(self.names) if name in blocks]
        self._sharded = [i for i, p in enumerate(self._parameters) if p is not None and as_sharded(p) is not None]
        self._buffers = [
            (i, model.get_submodule(name.rpartition(".")[0])._buffers, name.rpartition(".")[2])
            for i, name in enumerate(self.names)
            if owner[name] not in parameters
        ]
        # Factors are written into one vector per group; its elements are views made once.
        self._factors = [torch.ones(len(group), device=d, dtype=t) for (d, t), group in groups.items()]
        self._views = [view for vector in self._factors for view in vector.unbind()]
        self._coarse = any(t.itemsize < 4 for _, t in groups)
        self._spacing = torch.tensor(
            [torch.finfo(t).eps for (_, t), group in groups.items() for _ in group], dtype=torch.float64
        )

    def tensors(self) -> list[Tensor]:
        """What this rank holds of the tensors, in the order of ``names``."""
        tensors = self._whole()
        if self._sharded:
            tensors = list(tensors)
            for i in self._sharded:
                tensors[i] = local(tensors[i])
        return tensors

    def multiply(self, logs: Tensor) -> Tensor:
        """Multiply each tensor by exp(log), as far as its precision takes it; returns the logs that were not applied.

        Each factor is rounded to the tensor's own precision, so the remainder is known. In 16 bits and below, a factor
        within the spacing of the tensor's numbers would move some entries by too much and others not at all: it waits,
        and what a larger one achieved is measured.

        Args:
            logs: float64, in the order of ``names``.

        Returns:
            What is left to apply, float64.
        """
        if self._coarse:
            return self._multiply_coarse(logs)
        if len(self._factors) == 1:
            (rounded,) = self._factors
            torch.exp(logs, out=rounded)
            torch._foreach_mul_(self.tensors(), self._views)
            return logs - rounded.log_()
        self._round(logs.exp())
        torch._foreach_mul_(self.tensors(), self._views)
        return logs - self._applied(logs)

    def _multiply_coarse(self, logs: Tensor) -> Tensor:
        """The same with 16-bit tensors among them, in two more passes over the memory."""
        self._round(logs.masked_fill(logs.abs() < self._spacing.to(logs.device), 0.0).exp_())
        norms = Norms(self._whole())
        before = norms.here()
        torch._foreach_mul_(self.tensors(), self._views)
        before, after = norms.whole(torch.stack([before, norms.here()]))
        measured = (after / before).log_().to(logs.device)
        return logs - torch.where(measured.isfinite(), measured, self._applied(logs))

    def _whole(self) -> list[Tensor]:
        tensors = self._parameters
        for i, owner, key in self._buffers:
            tensors[i] = owner[key]  # type: ignore[assignment]
        for i, block, parameter in self._blocks:
            tensors[i] = block.of(parameter)  # type: ignore[call-overload]
        return tensors  # type: ignore[return-value]

    def _round(self, factors: Tensor) -> None:
        for vector, part in zip(self._factors, torch.split_with_sizes(factors, [len(v) for v in self._factors]), strict=True):
            vector.copy_(part)

    def _applied(self, logs: Tensor) -> Tensor:
        return torch.cat([vector.to(logs) for vector in self._factors]).log_()
