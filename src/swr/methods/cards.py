"""The methods' cards, which are their docstrings: a line each, one whole, or all of them as a page.

``python -m swr.methods.cards > docs/methods.md`` writes the page.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from swr.methods.base import Method
from swr.methods.composition import Composition
from swr.methods.registry import find, names, parts
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

Several methods act on one model as `swr.methods.compose(a, b, …)`, or by a name with `+` between them, here and in the bench:
`swr.methods.build("swr+hare-tortoise", model, inputs, coefficient=1e-3)`, `swr run … --methods swr+l2 --hyper
swr.coefficient=1e-3 l2.coefficient=1e-2`. A hyper-parameter that one part alone has needs no name before it. At each moment the
parts act in the order in which they are named, with two exceptions: what reads the optimizer's update (`hyperball`,
`cautious-decay`, `upgd`) acts first, and what averages the weights (`ema`, `hare-tortoise`) last. So weights are rescaled first
and then averaged. All penalties are added before anything else is done, and decoupled decay acts before the step. Methods that
would decide the same thing, such as two rescalers or two averaged copies, are refused.

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
    methods = [find(part) for part in parts(name)]
    found = [when for hook, when in HOOKS.items() if any(getattr(m, hook) is not getattr(Method, hook) for m in methods)]
    return ", ".join(dict.fromkeys(found))


def card(name: str) -> str:
    """All there is to say about a method, as plain text; of several that are combined, one after another."""
    method = find(name)
    if len(several := parts(name)) > 1:
        order = ", ".join(method.kinds) if issubclass(method, Composition) else ""
        head = f"{name}: {method.title}\n\nAfter a step they act in this order: {order}."
        return "\n\n\n".join([head, *(card(part) for part in several)])
    return f"{name}: {method.title}\n\n{_doc(method)}"


def page() -> str:
    """All the cards, as Markdown."""
    rows = [f"| [`{name}`](#{name}) | {find(name).title} | {moments(name)} | {sentence(name)} |" for name in names()]
    texts = [HEAD, "\n".join(["| name | method | acts at | what it does |", "|---|---|---|---|", *rows]) + "\n"]
    for name in names():
        method = find(name)
        texts.append(f"## {name}\n\n**{method.title}** `swr.methods.{method.__name__}`\n\n{_markdown(_doc(method))}")
    texts.append("# Transforms\n\nChanges of the network itself, made once, before a method is built.\n")
    texts += [f"## {name}\n\n`swr.methods.{name}`\n\n{_markdown(_doc(make))}" for name, make in TRANSFORMS.items()]
    return "\n".join(texts)


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
