"""The methods' cards, which are their docstrings: a line each, one whole, or all of them as a page.

``python -m swr.methods.cards > docs/methods.md`` writes the page.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from swr.methods.base import Method
from swr.methods.registry import find, names
from swr.methods.transforms.crelu import crelu
from swr.methods.transforms.normalised import normalised

TRANSFORMS: dict[str, Callable[..., Any]] = {"crelu": crelu, "normalised": normalised}
"""what is done to a network before it trains, and is no method"""

HOOKS = {"penalty": "loss", "before_step": "step", "step": "step", "after_step": "step", "new_task": "task"}
"""when a method acts, by what it overrides: in the loss, before or after a step of the optimizer, at a new task"""

SECTIONS = ("When", "Touches", "Keeps", "Differences", "Args", "Returns", "Raises", "References")
"""the headers of a docstring"""

HEAD = """# The methods

Every method attaches to your model and optimizer in one line, `swr.methods.build(NAME, model, inputs).attach(optimizer)`,
and the bench runs it under its name, `swr run … --methods NAME`. `swr methods` lists them, `swr methods NAME` prints a card.
A loop of your own calls `new_task()` where the data changes; the optimizer calls the rest. What acts at the loss is a penalty:
the attached optimizer adds its gradient to the others before each step. To have it in the loss instead, add `penalty()` there
and do not attach the method, or attach it with `penalty="loss"`; both at once is an error.

This page is made of the classes' docstrings: `python -m swr.methods.cards > docs/methods.md`.
[Adding one](adding-a-method.md) takes about thirty lines.
"""


def sentence(name: str) -> str:
    """What a method does, in one sentence.

    >>> sentence("l2")
    'L2 regularisation, over all learnable parameters, biases and normalisation layers included.'
    """
    return " ".join(_doc(find(name)).split("\n\n")[0].split())


def moments(name: str) -> str:
    """When a method acts, in words.

    >>> moments("parseval"), moments("swr"), moments("dsd")
    ('loss', 'step', 'step, task')
    """
    method = find(name)
    found = [when for hook, when in HOOKS.items() if getattr(method, hook) is not getattr(Method, hook)]
    return ", ".join(dict.fromkeys(found))


def card(name: str) -> str:
    """All there is to say about a method, as plain text."""
    method = find(name)
    return f"{name}: {method.title}\n\n{_doc(method)}"


def page() -> str:
    """All the cards, as Markdown."""
    rows = [f"| [`{name}`](#{name}) | {find(name).title} | {moments(name)} | {sentence(name)} |" for name in names()]
    parts = [HEAD, "\n".join(["| name | method | acts at | what it does |", "|---|---|---|---|", *rows]) + "\n"]
    for name in names():
        method = find(name)
        parts.append(f"## {name}\n\n**{method.title}** `swr.methods.{method.__name__}`\n\n{_markdown(_doc(method))}")
    parts.append("# Transforms\n\nChanges of the network itself, made once, before a method is built.\n")
    parts += [f"## {name}\n\n`swr.methods.{name}`\n\n{_markdown(_doc(make))}" for name, make in TRANSFORMS.items()]
    return "\n".join(parts)


def _doc(thing: object) -> str:
    return inspect.getdoc(thing) or ""


def sections(text: str) -> dict[str, str]:
    """The sections of a docstring that stand under a header of their own, a word of :data:`SECTIONS` and a colon.

    >>> sections("One sentence: the first.\\n\\nWhen:\\n    At a step.\\n\\nArgs:\\n    rate: ρ.")
    {'When': 'At a step.', 'Args': 'rate: ρ.'}
    """
    found = {}
    for block in text.split("\n\n"):
        header, _, body = block.partition("\n")
        if header.removesuffix(":") in SECTIONS and header.endswith(":") and body:
            found[header.removesuffix(":")] = inspect.cleandoc(body)
    return found


def arguments(text: str) -> dict[str, str]:
    """What a docstring says of each argument, by name; several names may share a meaning.

    >>> arguments("One sentence.\\n\\nArgs:\\n    rate: ρ, a number:\\n        0 or larger.\\n    a, b: two more.")
    {'rate': 'ρ, a number: 0 or larger.', 'a, b': 'two more.'}
    """
    entries = re.split(r"\n(?=\S)", sections(text).get("Args", ""))
    pairs = [" ".join(entry.split()).split(": ", 1) for entry in entries if entry]
    return {name: meaning for name, meaning in pairs}  # noqa: C416 a pair that is none is an error here


def _markdown(text: str) -> str:
    """A docstring: mathematics and examples fenced, sections as lists."""
    prose = [_block(block) for block in text.split("\n\n") if not sections(block)]
    found = sections(text)
    said = [f"- **{name}:** {_line(body)}" for name, body in found.items() if name != "Args"]
    options = [f"- **{name}:** {_inline(meaning)}" for name, meaning in arguments(text).items()]
    lists = ["\n".join(said), "\n".join(["Arguments:", "", *options]) if options else ""]
    return "\n\n".join(filter(None, [*prose, *lists])) + "\n"


def _block(block: str) -> str:
    if block.startswith(">>>"):
        return f"```pycon\n{block}\n```"
    if block.startswith("    "):
        return f"```text\n{inspect.cleandoc(block)}\n```"
    return _line(block)


def _line(text: str) -> str:
    return _inline(" ".join(text.split()))


def _inline(text: str) -> str:
    text = re.sub(r":\w+:`([^`]+)`", r"`\1`", text)
    return text.replace("``", "`")


if __name__ == "__main__":
    print(page(), end="")
