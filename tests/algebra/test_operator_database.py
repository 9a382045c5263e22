"""PyTorch's operator database as the judge: whatever a plan lets move keeps the output of every operator."""

import pytest
import torch

import swr
from opinfo.judge import (
    OPERATORS,
    UNTRACED,
    Judged,
    Question,
    Scaled,
    Several,
    judge_all,
    plans,
    samples_of,
    typical,
    verdict_of,
)

CHUNKS = 8


def unsound(judged: list[Judged]) -> list[tuple[str, str, float, str]]:
    return [(j.operator, j.variant, j.deviation, j.reason) for j in judged if j.verdict == "unsound"]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_operator_is_broken_by_what_its_plan_lets_move(chunk):
    """One sample per operator, the one that says most."""
    questions = [Question(op, sample) for op in OPERATORS[chunk::CHUNKS] if (sample := typical(op)) is not None]
    judged = list(judge_all(questions))
    assert unsound(judged) == []
    assert sum(j.verdict == "sound" for j in judged) > 0.5 * len(judged)
    assert {j.operator for j in judged if j.verdict == "not traced"} <= UNTRACED
    assert sum(j.verdict == "asserts nothing" for j in judged) <= 4


def test_a_rule_that_is_wrong_is_found(monkeypatch):
    from swr.algebra.rules.rulebook import RULES

    for name in ("aten.exp", "aten.softmax", "aten.floor", "aten.square"):
        monkeypatch.setitem(RULES, name, lambda flow, self: flow.same(self))
    operators = [op for op in OPERATORS if op.name in ("exp", "softmax", "floor", "square", "abs")]
    judged = list(judge_all(Question(op, typical(op)) for op in operators))
    assert {j.operator.partition("_")[0] for j in judged if j.verdict == "unsound"} == {"exp", "softmax", "floor", "square"}


def test_operators_traced_together_have_the_plans_they_have_alone():
    names = ("matmul", "addmm", "linalg.solve", "var_mean", "nn.functional.layer_norm", "where", "tanh")
    models = [Scaled(op.op, typical(op)) for op in OPERATORS if op.name in names and not op.variant_test_name]
    assert len(models) == len(names)
    for i, (model, planned) in enumerate(zip(models, plans(models), strict=True)):
        alone, together = swr.analyze(model, model.inputs), planned.plan
        assert planned.prefix == f"models.{i}.s."
        mine = tuple(f"models.{i}.{name}" for name in alone.weights)
        assert {f"models.{i}.{name}" for name in alone.scaled} == {n for n in together.scaled if n.startswith(f"models.{i}.")}
        columns = [together.weights.index(name) for name in mine]
        assert torch.equal(together.matrix(mine)[:, columns], alone.matrix(alone.weights))
        assert torch.equal(together.output_row[columns], alone.output_row)
    assert Several(models).inputs[0] is models[0].inputs


@pytest.mark.slow
def test_the_page_of_operators_is_current_and_complete():
    """At least nine tenths of what can move may move, of the operators that real models use."""
    from opinfo.page import PAGE, measure, share

    moved, movable = share(each for each in measure() if each.used)
    assert moved >= 0.9 * movable
    assert f"| {movable} | {moved} |" in PAGE.read_text()


def test_an_operator_that_cannot_be_traced_leaves_the_plans_of_its_batch_as_they_are():
    questions = [Question(op, typical(op)) for op in OPERATORS if op.name in ("matmul", "allclose", "exp", "bmm")]
    models = [Scaled(question.operator.op, question.sample) for question in questions]
    verdicts = {
        question.operator.name: verdict_of(question, model, planned, 0).verdict
        for question, model, planned in zip(questions, models, plans(models), strict=True)
    }
    assert verdicts == {"matmul": "sound", "allclose": "not traced", "exp": "held", "bmm": "sound"}


SLOW_CHUNKS = 40


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(SLOW_CHUNKS))
def test_no_sample_of_an_operator_is_broken(chunk):
    """All samples; the function, and of the first ones the method and the variant that works in place."""
    questions = []
    for op in OPERATORS[chunk::SLOW_CHUNKS]:
        samples = samples_of(op)
        questions += [Question(op, sample) for sample in samples]
        if op.method_variant is not None:
            questions += [Question(op, sample, "method") for sample in samples[:3]]
        if op.inplace_variant is not None:
            questions += [Question(op, sample, "in place") for sample in samples[:6] if not sample.broadcasts_input][:3]
    assert unsound(list(judge_all(questions, seed=1))) == []
