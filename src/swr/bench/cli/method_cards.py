"""The command `methods`: the methods' cards as lines that fit the terminal."""

from __future__ import annotations

import re

from swr import methods
from swr.bench.words import aligned, terminal_width, wrapped
from swr.methods import cards


def methods_table() -> str:
    """All methods, with a sentence each."""
    return aligned(
        [["name", "acts at", "what it does"], *([name, cards.moments(name), _line(name)] for name in methods.names())]
    )


def _line(name: str) -> str:
    """A sentence, after the method's title if that is neither its name nor in the sentence."""
    title, sentence = methods.find(name).title, cards.sentence(name)
    known = title.lower().replace(" ", "-") == name or sentence.startswith(title)
    return sentence if known else f"{title}: {sentence}"


def card(name: str) -> str:
    """All there is to say about a method: prose in new lines, mathematics and examples line by line."""
    return "\n\n".join(_block(block) for block in cards.card(name).split("\n\n"))


def _block(block: str) -> str:
    header, _, body = block.partition("\n")
    if block.startswith(">>>"):
        return block
    if block.startswith("    "):
        return "\n".join(map(_formula, block.split("\n")))
    if not cards.sections(block):
        return wrapped(" ".join(block.split()))
    if header != "Args:":
        return f"{header}\n{wrapped(' '.join(body.split()), '    ')}"
    entries = re.split(r"\n(?=    \S)", body)
    return "\n".join([header, *(wrapped(" ".join(entry.split()), "    ", "        ") for entry in entries)])


def _formula(line: str) -> str:
    """A line of mathematics as it is, unless it is too long: then broken where its author left a wide space."""
    if len(line) <= terminal_width():
        return line
    return "\n".join(wrapped(part, "    ", "        ") for part in re.split(r" {3,}", line.strip()))
