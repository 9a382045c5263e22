"""Whether a plan keeps an operator's output, on one sample of PyTorch's operator database.

Of each sample a model is built,

    out = op(s_1 a_1, s_2 a_2, …),

whose inputs are the sample's tensors a_i and whose parameters are the numbers s_i, one for every floating or complex
tensor. The plan says which s_i may move; they are moved at random, and every floating output must be multiplied by the
constant that the plan names, every other output must stay as it is. Of an operator with several outputs each is judged alone
too, since their degrees may differ (the factors of a decomposition).
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, fx, nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

import swr
from swr.algebra.flow import Flow, follow
from swr.algebra.graph import Traced, trace
from swr.algebra.plan import plan_of
from swr.algebra.rules import lookup

Variant = Literal["function", "method", "in place"]
Verdict = Literal["sound", "held", "asserts nothing", "not traced", "unsound"]

EXACT = 1e-9
WITH_EPSILON = 1e-3
"""of normalisation layers and distances, whose small epsilon counts as nothing"""
TOO_LARGE = 100_000  # entries of one sample; the few larger ones say nothing that smaller ones do not

UNDEFINED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
"""their outputs are whatever was in memory"""

OPERATORS: tuple[OpInfo, ...] = tuple(operator for operator in op_db if operator.name not in UNDEFINED)


UNTRACED = frozenset(
    (
        *("allclose", "corrcoef", "cov", "combinations", "equal", "linalg_lstsq", "linalg_lstsq_grad_oriented"),
        *("sparse_sampled_addmm", "sparse_mm_reduce", "nn_functional_ctc_loss", "nn_functional_gaussian_nll_loss"),
        *("jiterator_unary", "jiterator_binary", "jiterator_binary_return_by_ref", "jiterator_2inputs_2outputs"),
        "jiterator_4inputs_with_extra_args",
    )
)
"""torch.export refuses some or all samples of these (control flow that depends on data, sparse tensors, no kernel)"""

BATCH = 12  # operators traced at once


@dataclass(frozen=True)
class Question:
    """A sample of an operator, and which of its variants to call."""

    operator: OpInfo
    sample: SampleInput
    variant: Variant = "function"


@dataclass(frozen=True)
class Judged:
    """What became of one sample.

    verdict: ``held`` if no s_i may move; ``asserts nothing`` if those that may move meet only zeros or NaN.
    deviation: the largest over the outputs, relative to the largest entry, in units of what is allowed.
    scales: how many s_i there are; allowed: the directions in which the plan lets them move, one a row.
    """

    operator: str
    variant: Variant
    verdict: Verdict
    deviation: float = 0.0
    scales: int = 0
    allowed: Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    reason: str = ""


def is_scaled(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and (leaf.is_floating_point() or leaf.is_complex())


class Scaled(nn.Module):
    """An operator on the tensors of a sample, each of them multiplied by a number of its own."""

    def __init__(self, operator: Callable[..., Any], sample: SampleInput) -> None:
        super().__init__()
        self.operator = operator
        leaves, self.structure = pytree.tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
        self.others = [None if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self.places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        self.inputs = tuple(leaves[i].detach() for i in self.places)
        self.s = nn.ParameterList(
            nn.Parameter(torch.ones((), dtype=leaf.dtype.to_real())) for leaf in self.inputs if is_scaled(leaf)
        )

    def forward(self, *inputs: Tensor) -> Any:
        leaves, scales = list(self.others), iter(self.s)
        for place, tensor in zip(self.places, inputs, strict=True):
            leaves[place] = next(scales) * tensor if is_scaled(tensor) else tensor
        args, kwargs = pytree.tree_unflatten(leaves, self.structure)
        return self.operator(*args, **kwargs)

    @torch.no_grad()
    def outputs(self, log_scales: Tensor) -> list[Tensor]:
        """The outputs at s = exp(log_scales); the random numbers are the same every time."""
        for parameter, log_scale in zip(self.s, log_scales.tolist(), strict=True):
            parameter.fill_(math.exp(log_scale))
        with warnings.catch_warnings(action="ignore"), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            leaves = pytree.tree_leaves(self(*self.inputs))
        return [leaf.clone() if isinstance(leaf, Tensor) else torch.tensor(leaf) for leaf in leaves if is_output(leaf)]


def is_output(leaf: Any) -> bool:
    return isinstance(leaf, (Tensor, bool, int, float, complex))


class Record:
    """How many outputs each operator has in the graph; apart, since export puts the attributes of a module back."""

    counts: list[int]


class Several(nn.Module):
    """Operators side by side: to trace many at once costs little more than to trace one."""

    def __init__(self, models: Sequence[Scaled]) -> None:
        super().__init__()
        self.models = nn.ModuleList(models)
        self.inputs = tuple(model.inputs for model in models)
        self.record = Record()

    def forward(self, *inputs: tuple[Tensor, ...]) -> Any:
        outputs = [model(*tensors) for model, tensors in zip(self.models, inputs, strict=True)]
        kinds = (Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
        self.record.counts = [sum(isinstance(leaf, kinds) for leaf in pytree.tree_leaves(out)) for out in outputs]
        return outputs


@dataclass(frozen=True)
class Planned:
    """The plan of an operator, and those of each of its outputs alone; prefix: of its scales in the plans."""

    plan: swr.ScalePlan
    each: tuple[swr.ScalePlan, ...]
    prefix: str


def plans(models: Sequence[Scaled]) -> list[Planned | swr.SWRError]:
    """The plan of each operator alone, or why it cannot be traced, from as few traces as possible."""
    several = Several(models)
    try:
        with warnings.catch_warnings(action="ignore"), torch.no_grad():
            traced = trace(several, several.inputs)
    except (swr.ModelError, swr.InputsError) as error:
        half = len(models) // 2
        return plans(models[:half]) + plans(models[half:]) if half else [error]
    found: list[Planned | swr.SWRError] = []
    ends = list(itertools.accumulate(several.record.counts, initial=0))
    assert ends[-1] == len(traced.outputs)
    for i, (begin, end) in enumerate(itertools.pairwise(ends)):
        outputs = traced.outputs[begin:end]
        each = tuple(_plan(several, traced, (output,)) for output in outputs) if len(outputs) > 1 else ()
        found.append(Planned(_plan(several, traced, outputs), each, f"models.{i}.s."))
    return found


def _plan(model: nn.Module, traced: Traced, outputs: tuple[fx.Node, ...]) -> swr.ScalePlan:
    flow = Flow()
    output = follow(replace(traced, outputs=outputs), flow, lookup, frozen={}, buffers={})
    return plan_of(model, flow, output)


def judge_all(questions: Iterable[Question], seed: int = 0) -> Iterator[Judged]:
    """The verdict on every question, in order; operators that cannot be traced are traced alone."""
    ordinary, alone = [], []
    for question in questions:
        (alone if question.operator.formatted_name in UNTRACED else ordinary).append(question)
    batches = [ordinary[i : i + BATCH] for i in range(0, len(ordinary), BATCH)] + [[question] for question in alone]
    for batch in batches:
        models = [Scaled(variant_of(q.operator, q.variant), q.sample) for q in batch]
        for question, model, planned in zip(batch, models, plans(models), strict=True):
            yield verdict_of(question, model, planned, seed)


def verdict_of(question: Question, model: Scaled, planned: Planned | swr.SWRError, seed: int) -> Judged:
    """Move what the plan lets move, and look at the outputs."""
    name = question.operator.formatted_name
    if isinstance(planned, swr.SWRError):
        return Judged(name, question.variant, "not traced", reason=str(planned))
    try:
        before = model.outputs(torch.zeros(len(model.s)))
    except RuntimeError as error:  # it reads the storage of its input, which a product does not have
        return Judged(name, question.variant, "not traced", reason=str(error))
    whole = _moved(question, model, planned.plan, planned.prefix, before, slice(None), seed)
    if len(planned.each) != len(before):
        return whole
    parts = [
        _moved(question, model, plan, planned.prefix, before, slice(i, i + 1), seed) for i, plan in enumerate(planned.each)
    ]
    wrong = [part for part in parts if part.verdict == "unsound"]
    if wrong or (whole.verdict == "held" and any(part.verdict == "sound" for part in parts)):
        return replace(wrong[0] if wrong else whole, verdict="unsound" if wrong else "sound")
    return whole


def _moved(
    question: Question, model: Scaled, plan: swr.ScalePlan, prefix: str, before: list[Tensor], chosen: slice, seed: int
) -> Judged:
    """Of some of the outputs."""
    name = question.operator.formatted_name
    scales = tuple(f"{prefix}{i}" for i in range(len(model.s)))
    unused = torch.tensor([scale in plan.unused for scale in scales], dtype=torch.float64)
    rows = torch.zeros(len(scales), len(plan.weights), dtype=torch.float64)
    for i, scale in enumerate(scales):
        if not unused[i]:
            rows[i] = plan.matrix((scale,))[0]
    reason = "; ".join(dict.fromkeys(e.reason for e in plan.equations if any(n.startswith(prefix) for n in e.form.terms)))
    allowed = torch.cat([rows.T[rows.T.any(1)], unused.diag()[unused.bool()]])
    if not len(allowed):
        return Judged(name, question.variant, "held", scales=len(scales), reason=reason)
    targets = (torch.rand(len(plan.weights), generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2 - 1) * 0.7
    moved = (rows @ targets + unused).round(decimals=12)  # equal factors to the last bit, so that ties stay ties
    after = model.outputs(moved)
    worst = compare(before[chosen], after[chosen], float((plan.output_row @ targets).exp()), tolerance(name))
    verdict: Verdict = "unsound" if worst > 1 else "sound" if says(before[chosen]) else "asserts nothing"
    return Judged(name, question.variant, verdict, worst, len(scales), allowed, reason)


def says(outputs: list[Tensor]) -> int:
    """How many entries of the outputs can be compared: any of an integer or a bool, finite and nonzero ones of a float."""
    return sum(int((out.isfinite() & (out != 0)).sum()) if is_scaled(out) else out.numel() for out in outputs)


def tolerance(name: str) -> float:
    return WITH_EPSILON if name in NORMALISING else EXACT


NORMALISING = frozenset(
    f"{prefix}{name}"
    for prefix, names in (
        ("nn_functional_", "batch_norm layer_norm group_norm instance_norm rms_norm normalize cosine_similarity"),
        ("nn_functional_", "pairwise_distance triplet_margin_loss triplet_margin_with_distance_loss cosine_embedding_loss"),
        ("", "_native_batch_norm_legit native_batch_norm native_layer_norm native_group_norm masked_normalize"),
    )
    for name in names.split()
)


def compare(before: list[Tensor], after: list[Tensor], constant: float, allowed: float) -> float:
    """max ‖after − C before‖_∞ / ‖C before‖_∞ over the floating outputs, in units of what is allowed.

    Infinite if anything else has changed. A type of few digits allows its own rounding.
    """
    worst = 0.0
    for old, new in zip(before, after, strict=True):
        if old.shape != new.shape or old.dtype != new.dtype:
            return math.inf
        if not is_scaled(old):
            worst = worst if torch.equal(old, new) else math.inf
            continue
        expected = constant * old
        finite = torch.isfinite(expected) & torch.isfinite(new)
        if not bool((finite | (expected == new) | (expected.isnan() & new.isnan())).all()):
            return math.inf
        if bool(finite.any()):
            error, size = (new - expected)[finite].abs().max(), expected[finite].abs().max()
            relative = float(error / size) if size > 0 else float(error)
            worst = max(worst, relative / max(allowed, 4 * torch.finfo(old.dtype).eps))
    return worst


def variant_of(operator: OpInfo, variant: Variant) -> Callable[..., Any]:
    return {"function": operator.op, "method": operator.method_variant, "in place": operator.inplace_variant}[variant]


def dtype_of(operator: OpInfo) -> torch.dtype | None:
    """The most exact floating or complex type that the operator takes on the CPU."""
    wide = (torch.float64, torch.complex128, torch.float32, torch.complex64, torch.bfloat16, torch.float16)
    return next((dtype for dtype in wide if operator.supports_dtype(dtype, "cpu")), None)


def samples_of(operator: OpInfo, limit: int | None = None) -> list[SampleInput]:
    """The first samples of an operator that have floating tensors, as the database gives them; seeded."""
    dtype = dtype_of(operator)
    if dtype is None:
        return []
    torch.manual_seed(0)
    with warnings.catch_warnings(action="ignore"):  # to the end: a generator that is left open switches gradients in a trace
        samples = list(operator.sample_inputs("cpu", dtype, requires_grad=False))
    return [sample for sample in samples if 0 < entries(sample) <= TOO_LARGE][:limit]


def typical(operator: OpInfo) -> SampleInput | None:
    """The sample that says most among the first ones: the most tensors, then entries of the output that can be compared."""

    def weight(sample: SampleInput) -> tuple[int, int]:
        model = Scaled(operator.op, sample)
        try:
            entries = says(model.outputs(torch.zeros(len(model.s))))
        except (AssertionError, NotImplementedError, RuntimeError):  # no such kernel on this machine
            return 0, 0
        return (len(model.s), min(entries, 50)) if entries > 1 else (0, entries)

    return max(samples_of(operator, 12), key=weight, default=None)


def entries(sample: SampleInput) -> int:
    """Of the tensors that are scaled."""
    leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    return sum(leaf.numel() for leaf in leaves if is_scaled(leaf))
