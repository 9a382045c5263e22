"""The methods' cards, which are their docstrings: a line each, one whole, or all of them as a page.

``python -m swr.methods.cards > docs/methods.md`` writes the page.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

from swr.methods.base import Method
from swr.methods.crelu import crelu
from swr.methods.normalised import normalised
from swr.methods.registry import find, names

TRANSFORMS: dict[str, Callable[..., Any]] = {"crelu": crelu, "normalised": normalised}
"""what is done to a network before it trains, and is no method"""

HOOKS = {"penalty": "loss", "before_step": "step", "step": "step", "after_step": "step", "new_task": "task"}
"""when a method acts, by what it overrides: in the loss, before or after a step of the optimizer, at a new task"""

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


def _markdown(text: str) -> str:
    """A docstring: mathematics and examples fenced, ``name: meaning`` lines as lists."""
    return "\n\n".join(_block(block) for block in text.split("\n\n")) + "\n"


def _block(block: str) -> str:
    if block.startswith(">>>"):
        return f"```pycon\n{block}\n```"
    if block.startswith("    "):
        return f"```text\n{inspect.cleandoc(block)}\n```"
    if re.match(r"[\w, ]+: ", block):
        return "\n".join(f"- {_inline(line)}" for line in _items(block))
    return _inline(" ".join(block.split()))


def _items(block: str) -> Iterator[str]:
    """The entries of a list, each on one line, its name in bold."""
    for entry in re.split(r"\n(?=\S)", block):
        yield re.sub(r"^([\w, ]+):", r"**\1:**", " ".join(entry.split()))


def _inline(text: str) -> str:
    text = re.sub(r":\w+:`([^`]+)`", r"`\1`", text)
    return text.replace("``", "`")


if __name__ == "__main__":
    print(page(), end="")
