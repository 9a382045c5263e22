"""The import graph between the packages of swr, drawn as a Mermaid diagram and checked against one table.

    python tools/import_graph.py            # the diagram, for docs/architecture.md
    python tools/import_graph.py --check    # the problems; exit code 1 if there are any

A *room* is a package such as ``algebra`` or ``bench.store`` with everything below it, or the modules at the top of ``swr`` and
of ``swr.bench`` that all others use ("ground"). Rooms may only import what the table allows; imports inside a function, or for
type checkers only, count too.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "swr"

GROUND, DOOR = "ground", "swr"
BENCH = (
    "bench.ground",
    "bench.data",
    "bench.experiments",
    "bench.training",
    "bench.store",
    "bench.running",
    "bench.report",
    "bench.cli",
)

ALLOWED: dict[str, tuple[str, ...]] = {
    GROUND: (),
    "algebra": (GROUND,),
    "units": (GROUND, "algebra"),
    "rescaling": (GROUND, "algebra", "units"),
    "methods": (GROUND, "algebra", "units", "rescaling"),
    "diagnostics": (GROUND, "algebra", "units", "rescaling", "methods"),
    DOOR: (GROUND, "algebra", "units", "rescaling", "diagnostics"),
    "integrations": (DOOR, GROUND, "algebra", "units", "rescaling", "methods", "diagnostics"),
    **{
        room: (DOOR, GROUND, "algebra", "units", "rescaling", "methods", "diagnostics", *BENCH[:place])
        for place, room in enumerate(BENCH)
    },
    "main": (DOOR, GROUND, "bench.cli"),
}
"""what each room may import, besides itself; the order is from the ground up"""


def room(module: str, source: Path = SOURCE) -> str:
    """The room of a module.

    >>> room("swr.algebra.rules"), room("swr.norms"), room("swr.bench.report.charts.curves"), room("swr.bench.files")
    ('algebra', 'ground', 'bench.report', 'bench.ground')
    """
    parts = module.split(".")[1:]
    if not parts:
        return DOOR
    if parts == ["__main__"]:
        return "main"
    if parts[0] == "bench":
        packages = {name.partition(".")[2] for name in BENCH}
        return f"bench.{parts[1]}" if len(parts) > 1 and parts[1] in packages else "bench.ground"
    return parts[0] if (source / parts[0]).is_dir() else GROUND


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """All modules by name."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules of swr that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "swr")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "swr":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in known else node.module


def graph(source: Path = SOURCE) -> dict[tuple[str, str], list[str]]:
    """The edges between rooms, each with the imports that make it."""
    known = modules(source)
    edges: dict[tuple[str, str], list[str]] = defaultdict(list)
    for module, path in known.items():
        for target in imports(path, known):
            edge = room(module, source), room(target, source)
            if edge[0] != edge[1]:
                edges[edge].append(f"{module} imports {target}")
    return dict(edges)


def problems(source: Path = SOURCE) -> list[str]:
    """Edges that the table does not allow, cycles, and names that two modules share."""
    edges = graph(source)
    found = [
        f"{start} must not import {target}: {why}"
        for (start, target), reasons in edges.items()
        if target not in ALLOWED.get(start, ())
        for why in reasons
    ]
    found += [f"there is no room {name} in the table" for name in sorted({r for edge in edges for r in edge} - set(ALLOWED))]
    if cycle := _cycle({start: [t for s, t in edges if s == start] for start, _ in edges}):
        found.append(f"rooms import each other: {' -> '.join(cycle)}")
    names: dict[str, list[str]] = defaultdict(list)
    for module, path in modules(source).items():
        if not path.stem.startswith("__"):
            names[path.stem].append(module)
    found += [f"two modules are called {name}: {', '.join(same)}" for name, same in names.items() if len(same) > 1]
    return found


def mermaid() -> str:
    """The diagram: an arrow from each room to those it imports; what every room imports, the ground, is left out."""
    edges = sorted(
        edge for edge in graph() if not edge[1].endswith(GROUND) and edge[1] != DOOR and edge[0] not in (DOOR, "main")
    )
    reached = {source: {t for s, t in edges if s == source} for source, _ in edges}
    lines = ["flowchart BT"]
    names = list(dict.fromkeys(name for edge in edges for name in edge))
    lines += [f'    {_key(name)}["{name.replace("bench.", "bench/")}"]' for name in ALLOWED if name in names]
    for source, target in edges:  # an arrow that follows from two others only makes the diagram harder to read
        if not any(target in _below(middle, reached) for middle in reached[source] - {target}):
            lines.append(f"    {_key(source)} --> {_key(target)}")
    return "\n".join(lines)


def _below(name: str, reached: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    todo = [name]
    while todo:
        for target in reached.get(todo.pop(), ()):
            if target not in found:
                found.add(target)
                todo.append(target)
    return found


def _cycle(edges: dict[str, list[str]]) -> list[str]:
    """A path of rooms that ends where it begins; empty if there is none."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for target in edges.get(name, ()):
            if cycle := visit(target, [*path, name]):
                return cycle
        done.add(name)
        return []

    for name in edges:
        if cycle := visit(name, []):
            return cycle
    return []


def _key(name: str) -> str:
    return name.replace(".", "_")


if __name__ == "__main__":
    if "--check" in sys.argv:
        print("\n".join(problems()))
        sys.exit(1 if problems() else 0)
    print(mermaid())
