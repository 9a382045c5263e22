"""A table as text to copy: Markdown, LaTeX with booktabs, and CSV with all fields of a cell."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from swr.bench.report import notes
from swr.bench.report.tables import Cell, Row, Table
from swr.bench.store.csv_fields import line
from swr.bench.words import plural

FIELDS = (
    *("experiment", "protocol", "measure", "method", "title", "hyper", "column", "seeds", "expected", "failed", "running"),
    *("mean", "std", "low", "high", "published", "published_std", "difference", "gain", "p", "pairs", "best"),
    *("note", "values", "command"),
)
"""of the CSV, one row per cell"""


@dataclass(frozen=True)
class Entry:
    """A field of a printed table."""

    text: str
    best: bool = False
    remark: str = ""
    """what is missing, or the number of seeds if cells differ in that"""


def markdown(table: Table) -> str:
    """A pipe table with its title above and its notes below; everything that has a meaning in Markdown is escaped."""
    head, rows = grid(table)

    def cell(entry: Entry) -> str:
        text = f"**{escaped(entry.text)}**" if entry.best else escaped(entry.text)
        return text + (f" ({escaped(entry.remark)})" if entry.remark else "")

    lines = [
        f"**{escaped(caption(table))}**",
        "",
        _pipes(map(escaped, head)),
        _pipes([":--", *["--:"] * (len(head) - 1)]),
        *(_pipes(map(cell, row)) for row in rows),
        "",
        *(f"- {escaped(note)}" for note in _notes(table)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def latex(table: Table) -> str:
    """A ``table`` environment; the document needs the package booktabs."""
    head, rows = grid(table)

    def cell(entry: Entry) -> str:
        text = re.sub(r" ± (\S+)", r" \\pm \1", entry.text)
        if re.fullmatch(r"[-+.\d]+( \\pm [.\d]+)?", text):
            text = f"$\\mathbf{{{text}}}$" if entry.best else f"${text}$"
        else:
            text = f"\\textbf{{{tex(entry.text)}}}" if entry.best else tex(entry.text)
        return text + (f" ({tex(entry.remark)})" if entry.remark else "")

    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{tex(caption(table))}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
        r"\toprule",
        " & ".join(map(tex, head)) + r" \\",
        r"\midrule",
        *(" & ".join(map(cell, row)) + r" \\" for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    below = [f"% {' '.join(note.split())}" for note in _notes(table)]
    return "\n".join([*lines, *below]) + "\n"


def csv(*tables: Table) -> str:
    """One row per cell, with the fields :data:`FIELDS`; numbers in full."""
    lines = [line(FIELDS)]
    for table in tables:
        for row in table.rows:
            lines += [line(_fields(table, row, *pair)) for pair in zip(table.columns, row.cells, strict=True)]
    return "\n".join(lines) + "\n"


def grid(table: Table) -> tuple[list[str], list[list[Entry]]]:
    """The headings and fields of a printed table: ours, and if the paper has it, the published value and the difference."""
    uniform = seeds(table) is not None
    head, rows = [""], [[Entry(row.title)] for row in table.rows]
    for index, column in enumerate(table.columns):
        cells = [row.cells[index] for row in table.rows]
        head.append(column)
        for row, cell in zip(rows, cells, strict=True):
            row.append(Entry(str(cell), cell.best, cell.note or ("" if uniform else f"n={cell.done}")))
        if any(cell.published for cell in cells):
            head += ["paper", "difference"]
            for row, cell in zip(rows, cells, strict=True):
                known = cell.published
                row.append(Entry(f"{known.mean:.4f} ± {known.std:.4f}" if known else ""))
                away = "" if cell.distance is None else f"{cell.distance:+.1f} sd"
                row.append(Entry("" if cell.difference is None else f"{cell.difference:+.4f}", remark=away))
    return head, rows


def caption(table: Table) -> str:
    """What a table shows, in one line."""
    count = seeds(table)
    over = f" over {plural(count, 'seed')}" if count else " over the seeds"
    what = "" if table.measure in table.title else f"{table.measure}, "
    return f"{table.title}: {what}mean ± standard deviation{over}"


def seeds(table: Table) -> int | None:
    """The number of seeds of every cell, if they all have the same."""
    counts = {cell.done for row in table.rows for cell in row.cells if cell.done}
    return counts.pop() if len(counts) == 1 else None


def _fields(table: Table, row: Row, column: str, cell: Cell) -> tuple[object, ...]:
    low, high = cell.interval or (None, None)
    published = (cell.published.mean, cell.published.std) if cell.published else (None, None)
    numbers = (cell.done, cell.expected, cell.failed, cell.running, cell.mean, cell.std, low, high, *published)
    values = " ".join(f"{seed}:{value}" for seed, value in cell.values.items())
    against = (cell.difference, cell.gain, cell.p, cell.pairs, cell.best)
    names = (table.experiment, table.label, table.measure, row.line, row.title, cell.hyper, column)
    return (*names, *numbers, *against, cell.note, values, cell.command)


def _notes(table: Table) -> list[str]:
    """Without those on intervals and tests, which a printed table does not show."""
    return [note for note in table.notes if note not in (notes.INTERVAL, notes.TEST)]


def _pipes(fields: Iterable[str]) -> str:
    return f"| {' | '.join(fields)} |"


def escaped(text: str) -> str:
    """Text escaped for Markdown, on one line."""
    return re.sub(r"([\\`*_\[\]<>|#&~$])", r"\\\1", " ".join(text.split()))


def tex(text: str) -> str:
    """Text escaped for LaTeX, on one line; λ_f as mathematics."""
    return re.sub(r"([α-ω])(?:_(\w))?|.", _symbol, " ".join(text.split()))


def _symbol(match: re.Match[str]) -> str:
    letter, index = match.groups()
    if letter is None:
        return _TEX.get(match[0], match[0])
    return f"$\\{GREEK[ord(letter) - ord('α')]}{f'_{{{index}}}' if index else ''}$"


GREEK = (
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu", "xi"),
    *("omicron", "pi", "rho", "varsigma", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
)
_TEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "±": r"$\pm$",
    "—": "---",
    "…": r"\ldots{}",
}
