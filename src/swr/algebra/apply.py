"""Find a model's parameters and buffers by name, and write scale factors into them in place."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from swr.norms import frobenius_norms


class Scaled:
    """The tensors of a model that a rescale touches, ordered by precision so that one call serves each.

    Parameters keep their identity for life; buffers are looked up each time, since moving a model replaces them.
    """

    def __init__(self, model: nn.Module, names: Sequence[str]) -> None:
        parameters = dict(model.named_parameters())
        buffers = dict(model.named_buffers())
        tensors = {name: parameters.get(name, buffers.get(name)) for name in names}
        dtypes = {name: t.dtype for name, t in tensors.items() if t is not None}
        self.dtypes = tuple(sorted(set(dtypes.values()), key=str))
        ordered = [[n for n in names if dtypes[n] is dtype] for dtype in self.dtypes]
        self.names = tuple(n for group in ordered for n in group)
        self._sizes = [len(group) for group in ordered]
        self._parameters = [parameters.get(name) for name in self.names]
        owners = [name.rpartition(".") for name in self.names]
        self._owners = [
            None if name in parameters else (model.get_submodule(path)._buffers, key)
            for name, (path, _, key) in zip(self.names, owners, strict=True)
        ]
        self._plain = all(owner is None for owner in self._owners)
        self._coarse = any(dtype.itemsize < 4 for dtype in self.dtypes)
        self._spacing = torch.tensor([torch.finfo(dtypes[n]).eps for n in self.names], dtype=torch.float64)

    def tensors(self) -> list[Tensor]:
        """The tensors themselves, in the order of ``names``."""
        if self._plain:
            return self._parameters  # type: ignore[return-value]
        return [
            owner[0][owner[1]] if owner is not None else p  # type: ignore[misc]
            for p, owner in zip(self._parameters, self._owners, strict=True)
        ]

    def multiply(self, logs: Tensor) -> Tensor:
        """Multiply each tensor by exp(log), as far as its precision takes it; returns the logs that were not applied.

        Each factor is rounded to the tensor's own precision, so the remainder is known. In 16 bits and below, a factor
        within the spacing of the tensor's numbers would move some entries by too much and others not at all: it waits,
        and what a larger one achieved is measured.
        """
        if self._coarse:
            return self._multiply_coarse(logs)
        factors, tensors = logs.exp(), self.tensors()
        if len(self.dtypes) == 1:
            rounded = factors.to(self.dtypes[0])
            torch._foreach_mul_(tensors, rounded.unbind())
            return logs - rounded.double().log_()
        rounded = self._rounded(factors)
        torch._foreach_mul_(tensors, rounded)
        return logs - torch.stack([r.double() for r in rounded]).log_()

    def _multiply_coarse(self, logs: Tensor) -> Tensor:
        """The same with 16-bit tensors among them: what rounding made of the factor is measured, in two more passes."""
        tensors = self.tensors()
        factors = self._rounded(logs.masked_fill(logs.abs() < self._spacing.to(logs.device), 0.0).exp_())
        before = frobenius_norms(tensors).to(logs.device)
        torch._foreach_mul_(tensors, factors)
        measured = (frobenius_norms(tensors).to(logs.device) / before).log_()
        asked = torch.stack([f.double() for f in factors]).log_()
        return logs - torch.where(measured.isfinite(), measured, asked)

    def _rounded(self, factors: Tensor) -> list[Tensor]:
        parts = torch.split_with_sizes(factors, self._sizes)
        return [f for dtype, part in zip(self.dtypes, parts, strict=True) for f in part.to(dtype).unbind()]


@torch.no_grad()
def multiply(model: nn.Module, names: Sequence[str], factors: Tensor) -> None:
    """Multiply each named tensor by its factor, once and for all."""
    for tensor, factor in zip(Scaled(model, names).tensors(), factors.unbind(), strict=True):
        tensor.mul_(factor.to(device=tensor.device, dtype=torch.promote_types(tensor.dtype, torch.float32)))
