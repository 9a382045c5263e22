"""Products of tensors of different types, which tracing lets pass and running the model does not."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import fx

from swr.errors import InputsError

aten = torch.ops.aten
PRODUCTS = {aten.linear.default, aten.matmul.default, aten.mm.default, aten.bmm.default, aten.addmm.default}
"""operators whose arguments must have one type"""


def refuse_mixed_dtypes(graph: fx.Graph, path_of: Callable[[fx.Node], str]) -> None:
    """Raise an InputsError if an operator of the graph multiplies tensors of different types; not under autocast.

    Args:
        graph: of ``torch.export``, whose nodes know the types of their results.
        path_of: where in the model a node comes from.
    """
    if torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"):
        return
    for node in graph.nodes:
        if node.target not in PRODUCTS:
            continue
        values = [argument.meta.get("val") for argument in node.all_input_nodes]
        types = dict.fromkeys(str(v.dtype).removeprefix("torch.") for v in values if isinstance(v, torch.Tensor))
        if len(types) > 1:
            raise InputsError(
                f"the example inputs have another dtype than the model: {path_of(node) or 'the model'} multiplies "
                f"{' by '.join(types)}; convert the inputs to the model's dtype, or the model to theirs."
            )
