"""Which operators real models use: those that the models of the transformers package call."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

from .judge import OPERATORS

FILES = 2  # an operator counts as used if at least so many models call it
PUNCTUATION = ("add", "sub", "mul", "div", "matmul", "pow", "neg", "eq", "ne", "lt", "le", "gt", "ge", "__getitem__")
"""x + y, x @ y, x[i] and so on: used everywhere"""


@cache
def used() -> frozenset[str]:
    """Names of the database's operators that at least two models call: as a function of torch, as a method or as a layer."""
    import transformers

    counts: Counter[str] = Counter()
    functions = {operator.name for operator in OPERATORS}
    methods = {operator.name for operator in OPERATORS if operator.method_variant is not None}
    for path in sorted((Path(transformers.__file__).parent / "models").glob("*/modeling_*.py")):
        counts.update(_called(ast.parse(path.read_text()), functions, methods))
    return frozenset({name for name, files in counts.items() if files >= FILES} | set(PUNCTUATION))


def _called(tree: ast.AST, functions: set[str], methods: set[str]) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            dotted = ast.unparse(node).removeprefix("torch.")
            short = re.sub(r"^(F|nn\.functional)\.", "nn.functional.", dotted)
            layer = re.sub(r"^nn\.", "nn.functional.", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", dotted)).lower()
            found |= {name for name in (short, re.sub(r"_norm\dd$", "_norm", layer)) if name in functions}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in methods:
            found.add(node.func.attr)
    return found
