"""Buffers that a model has registered under several names, merged in an exported program.

A layer that is both an attribute and an item of a list brings each of its buffers twice. A buffer that is written to (the
running statistics of batch norm in training mode) must appear once only, or the program cannot be made functional.
"""

from __future__ import annotations

from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec


def merge_aliases(program: ExportedProgram, model: nn.Module) -> ExportedProgram:
    """The same program with one placeholder for each buffer, under its first name; changed in place."""
    identities = {name: id(buffer) for name, buffer in model.named_buffers(remove_duplicate=False)}
    nodes = {node.name: node for node in program.graph.nodes}
    first: dict[int, InputSpec] = {}
    kept: list[InputSpec] = []
    for spec in program.graph_signature.input_specs:
        identity = identities.get(spec.target or "") if spec.kind is InputKind.BUFFER else None
        if identity is not None and first.setdefault(identity, spec) is not spec:
            alias = nodes[spec.arg.name]
            alias.replace_all_uses_with(nodes[first[identity].arg.name])
            program.graph.erase_node(alias)
        else:
            kept.append(spec)
    program.graph_signature.input_specs[:] = kept
    return program
