"""Writes docs/operators.md: what PyTorch's operator database says of the rules.

    PYTHONPATH=tests python -m opinfo.page

judges up to three samples of every operator, and finds numerically in which directions the scales of its inputs can move.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from .homogeneity import admissible
from .judge import OPERATORS, Judged, Question, Scaled, judge_all, samples_of, says, typical
from .usage import FILES, used

PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
SAMPLES = 3
VERSION = torch.__version__.partition("+")[0]


@dataclass(frozen=True)
class Measured:
    """An operator on the sample that says most.

    movable: in how many directions its scales can move; 0 if one entry is all there is to compare.
    allowed: in how many the plan lets them move.
    """

    judged: Judged
    used: bool
    movable: int
    allowed: int


def measure() -> list[Measured]:
    """Every operator that has a sample with floating tensors."""
    questions = [Question(op, sample) for op in OPERATORS if (sample := typical(op)) is not None]
    names = {question.operator.formatted_name: question for question in questions}
    found = []
    for judged in judge_all(questions):
        question = names[judged.operator]
        movable = 0 if judged.verdict == "not traced" else _movable(question)
        allowed = int(torch.linalg.matrix_rank(judged.allowed)) if len(judged.allowed) else 0
        found.append(Measured(judged, question.operator.name in used(), movable, allowed))
    return sorted(found, key=lambda each: each.judged.operator)


def _movable(question: Question) -> int:
    model = Scaled(question.operator.op, question.sample)
    try:
        outputs = model.outputs(torch.zeros(len(model.s)))
        return len(admissible(model)) if says(outputs) > 1 else 0
    except (RuntimeError, NotImplementedError):  # refuses scaled inputs (probabilities above one), or is sparse
        return 0


def share(measured: Iterable[Measured]) -> tuple[int, int]:
    """Operators that may move in every direction that is there, and all that can move."""
    movable = [each for each in measured if each.movable]
    return sum(each.allowed >= each.movable for each in movable), len(movable)


def page(measured: list[Measured], verdicts: Counter[str]) -> str:
    """The page as Markdown."""
    by_verdict = Counter(each.judged.verdict for each in measured)
    moved, movable = share(measured)
    used_moved, used_movable = share(each for each in measured if each.used)
    kinds = ("sound", "held", "asserts nothing", "not traced", "unsound")
    table = "\n".join(f"| {kind} | {by_verdict[kind]} | {verdicts[kind]} |" for kind in kinds)
    missing = [each for each in measured if each.allowed < each.movable]
    return f"""# Operators

Which operators let a scale pass, judged by PyTorch's own operator database
(`torch.testing._internal.common_methods_invocations.op_db`, torch {VERSION}). This page is written by

```sh
PYTHONPATH=tests python -m opinfo.page
```

Of every sample a model `out = op(s_1 a_1, s_2 a_2, …)` is built, with the sample's tensors as inputs and the numbers s_i as
parameters. The plan says which s_i may move. They are moved at random, and every floating output must be multiplied by the
constant that the plan names; every other output must stay as it is. Of an operator with several outputs each is judged alone
too, since their degrees may differ (`svd`). `tests/algebra/test_operator_database.py` does this for
one sample per operator, and for all samples with `-m slow`.

| verdict | operators, one sample each | up to {SAMPLES} samples each |
|---|---|---|
{table}
| all | {sum(by_verdict.values())} | {sum(verdicts.values())} |

*Held*: no s_i may move. *Asserts nothing*: the output is zero whatever the inputs are. *Not traced*: `torch.export` refuses the
sample, and so does `swr.analyze`, with an error.

## Completeness

The directions in which the s_i *can* move are found numerically (the null space of the derivatives, tried with factors from
0.05 to 12), without any rule. An output of one entry is proportional by accident and does not count.

| operators | can move | move in every direction the plan could allow | share |
|---|---|---|---|
| used by real models | {used_movable} | {used_moved} | {used_moved / used_movable:.1%} |
| all | {movable} | {moved} | {moved / movable:.1%} |

"Used by real models": called by at least {FILES} of the models in the `transformers` package, as a function, a method or a
layer.

## Held, although they can move

On their sample, these move in fewer directions than they could. Some can move only by accident of the sample (a clip that is
not reached, an exponent of one, a target that is never used); rounding operators (`fmod`, `floor_divide`) may jump where a
quotient is a whole number, and stay held for that. Those that real models use are in bold.

{_listed(f"**{_name(each)}**" if each.used else _name(each) for each in missing)}

## Held, because they are not homogeneous

Some of them in this sample only: filled with a number, with an epsilon above 1e-3.

{_listed(_name(each) for each in measured if each.judged.verdict == "held" and not each.movable)}

## Not traced

{_listed(_name(each) for each in measured if each.judged.verdict == "not traced")}

An operator that stays held restricts the plan and breaks nothing. `@swr.rule` teaches it:

```python
import torch, swr


@torch.library.custom_op("pages::twice", mutates_args=())
def twice(x: torch.Tensor, eps: float = 0.0) -> torch.Tensor:
    return 2 * x + eps


@swr.rule(torch.ops.pages.twice.default)
def _(flow, x, eps):  # arguments by the names of the operator's schema
    return flow.same(x, eps)
```
"""


def _name(each: Measured) -> str:
    return f"`{each.judged.operator}`"


def _listed(names: Iterable[str]) -> str:
    return "\n".join(textwrap.wrap(", ".join(names), 128, break_long_words=False, break_on_hyphens=False)) or "None."


def current() -> str:
    """The page as it should be now."""
    torch.set_num_threads(1)
    questions = (Question(op, sample) for op in OPERATORS for sample in samples_of(op, SAMPLES))
    return page(measure(), Counter(judged.verdict for judged in judge_all(questions)))


if __name__ == "__main__":
    PAGE.write_text(current())
    print(PAGE.read_text())
