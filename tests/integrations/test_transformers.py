"""The Trainer of transformers: the same weights as the plain loop, one rescale per real step, exact resume, logs."""

import json
import os
from functools import cache, partial

import pytest
import torch
from plain_loop import COEFFICIENT, adam, steps
from torch import nn

import swr

os.environ.setdefault("HF_HUB_OFFLINE", "1")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("accelerate", reason="the Trainer needs accelerate")

from transformers import (  # noqa: E402
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainingArguments,
)

from swr import methods  # noqa: E402
from swr.integrations import transformers as integration  # noqa: E402
from swr.integrations.transformers import SWRCallback  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*pin_memory.*no accelerator is found:UserWarning"),  # advice on speed
]

BATCH, LENGTH = 2, 8
INPUTS = {"input_ids": torch.zeros(1, LENGTH, dtype=torch.long)}


def gpt2(**options):
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 16,
        "n_positions": LENGTH,
        "n_embd": 8,
        "n_layer": 1,
        "n_head": 2,
        "bos_token_id": 0,
        "eos_token_id": 0,
    }
    still = {"attn_pdrop": 0.0, "embd_pdrop": 0.0, "resid_pdrop": 0.0}
    return GPT2LMHeadModel(GPT2Config(**{**sizes, **still, **options}))


@cache
def plan():
    """Of the model; made once, since tracing takes longer than training here."""
    return swr.analyze(gpt2(), kwargs=INPUTS)


def rows(count):
    ids = torch.randint(0, 16, (count, LENGTH), generator=torch.Generator().manual_seed(1))
    return [{"input_ids": row, "labels": row} for row in ids]


class InOrder(Trainer):
    """Batches in the order of the dataset, and the optimizer of the plain loop."""

    def _get_train_sampler(self, *args):
        return torch.utils.data.SequentialSampler(self.train_dataset)

    def create_optimizer(self, *args):
        if self.optimizer is None:
            self.optimizer = adam(self.model)
        return self.optimizer


def trainer(folder, max_steps=6, accumulate=1, callback=None, model=None, **options):
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=max_steps,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=accumulate,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        report_to=options.pop("report_to", "none"),
        use_cpu=True,
        disable_tqdm=True,
        **{"save_strategy": "no", "logging_strategy": "no", **options},
    )
    callback = SWRCallback(plan=plan(), coefficient=COEFFICIENT) if callback is None else callback
    model = gpt2() if model is None else model
    data = rows(BATCH * accumulate * 6)
    loss_func = partial(loss_of, accumulate=accumulate)
    runner = InOrder(model=model, args=arguments, train_dataset=data, callbacks=[callback], compute_loss_func=loss_func)
    return runner, callback


def loss_of(outputs, labels, num_items_in_batch=None, *, accumulate):
    """The share of one micro-batch in the mean over the tokens of a step."""
    logits, targets = outputs.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    return nn.functional.cross_entropy(logits, targets) / accumulate


def plain(count, accumulate=1, attach=True, autocast=False):
    """The same in a plain loop."""
    model = gpt2()
    rescaler = swr.SoftWeightRescaling(model, plan=plan(), coefficient=COEFFICIENT)
    optimizer = adam(model)
    if attach:
        rescaler.attach(optimizer)
    data = [row["input_ids"] for row in rows(BATCH * accumulate * count)]
    for k in range(count * accumulate):
        ids = torch.stack(data[k * BATCH : (k + 1) * BATCH])
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            outputs = model(input_ids=ids, use_cache=False)
        outputs.logits = outputs.logits.float()
        loss_of(outputs, ids, accumulate=accumulate).backward()
        if (k + 1) % accumulate == 0:
            optimizer.step()
            optimizer.zero_grad()
    return model


def same(model, other):
    return all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("accumulate", [1, 3])
def test_the_weights_equal_the_plain_loop_and_every_real_step_is_followed_once(accumulate, tmp_path):
    runner, callback = trainer(tmp_path, accumulate=accumulate)
    runner.train()
    assert same(runner.model, plain(6, accumulate))
    assert steps(callback.rescaler) == [runner.state.global_step] == [6]
    assert not same(runner.model, plain(6, accumulate, attach=False)), "the rescale did nothing"


def test_bfloat16_mixed_precision_equals_the_plain_loop_under_autocast(tmp_path):
    runner, callback = trainer(tmp_path, bf16=True)
    runner.train()
    assert steps(callback.rescaler) == [6]
    assert same(runner.model, plain(6, autocast=True))


@pytest.mark.parametrize(("accumulate", "anew"), [(1, False), (3, False), (1, True)])
def test_resumed_from_a_checkpoint_equals_straight(accumulate, anew, tmp_path):
    saving = {"save_strategy": "steps", "save_steps": 3, "restore_callback_states_from_checkpoint": anew}
    straight, reference = trainer(tmp_path / "run", accumulate=accumulate, **saving)
    straight.train()
    (tmp_path / "run/checkpoint-3").rename(tmp_path / "moved")
    model = gpt2()
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(3)  # other anchors, unless the state is restored
    resumed, callback = trainer(tmp_path / "again", accumulate=accumulate, model=model, **saving)
    resumed.train(resume_from_checkpoint=str(tmp_path / "moved"))
    (callback,) = (c for c in resumed.callback_handler.callbacks if isinstance(c, SWRCallback))
    assert same(straight.model, resumed.model)
    assert callback.rescaler.state_dict() == reference.rescaler.state_dict()
    assert steps(callback.rescaler) == [6]


def test_a_checkpoint_made_without_the_callback_can_be_continued_with_it(tmp_path):
    saving = {"save_strategy": "steps", "save_steps": 3}
    runner, _ = trainer(tmp_path, callback=transformers.TrainerCallback(), **saving)
    runner.train()
    resumed, callback = trainer(tmp_path, **saving)
    with pytest.warns(swr.ModelWarning, match="the anchors are still the norms of the initialisation"):
        resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert steps(callback.rescaler) == [3]
    state = json.loads((tmp_path / "checkpoint-6/trainer_state.json").read_text())
    assert state["stateful_callbacks"]["SWRCallback"]["attributes"]["saved"] == callback.rescaler.state_dict()


def test_a_second_train_attaches_once_and_keeps_the_anchors(tmp_path):
    runner, callback = trainer(tmp_path)
    runner.train()
    anchors = callback.rescaler.state_dict()["anchors"]
    runner.train()
    assert steps(callback.rescaler) == [12]
    assert callback.rescaler.state_dict()["anchors"] == anchors
    runner.optimizer.optimizer.step()
    assert steps(callback.rescaler) == [12], "still attached after training"


def test_a_model_that_the_trainer_makes_anew_is_analysed_anew(tmp_path):
    runner, callback = trainer(tmp_path, callback=SWRCallback(kwargs=INPUTS, coefficient=COEFFICIENT))
    assert callback.rescaler.model is runner.model
    runner.model_init = lambda: gpt2(n_embd=16)
    runner.train()
    assert callback.rescaler.model is runner.model
    assert callback.rescaler.plan.shapes["transformer.wte.weight"] == (16, 16)


def test_norms_and_scalers_join_the_log_where_the_loss_is_logged_and_are_measured_only_then(tmp_path, monkeypatch):
    measured, measure = [], integration.measured
    monkeypatch.setattr(integration, "measured", lambda rescaler: measured.append(measure(rescaler)) or measured[-1])
    runner, callback = trainer(tmp_path, logging_strategy="steps", logging_steps=3)
    runner.train()
    logged = [row for row in runner.state.log_history if "swr/norm/transformer.wte.weight" in row]
    assert [row["step"] for row in logged] == [3, 6]
    assert all("loss" in row for row in logged)
    assert len(measured) == 2
    for name, norm in callback.rescaler.norms().items():
        assert logged[1][f"swr/norm/{name}"] == norm
        assert logged[1][f"swr/scaler/{name}"] == callback.rescaler.scalers()[name]
    assert logged[0]["swr/norm/transformer.wte.weight"] != logged[1]["swr/norm/transformer.wte.weight"]


def test_the_reporters_of_the_trainer_get_the_values_after_report_through(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def tags(folder, through):
        monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(folder))
        runner, callback = trainer(folder, report_to="tensorboard", logging_strategy="steps", logging_steps=3)
        if through:
            callback.report_through(runner)
        runner.train()
        events = EventAccumulator(str(folder))
        events.Reload()
        found = {tag for tag in events.Tags()["scalars"] if "swr/" in tag}
        return found, [e.step for tag in sorted(found)[:1] for e in events.Scalars(tag)]

    assert tags(tmp_path / "a", False) == (set(), [])
    found, at = tags(tmp_path / "b", True)
    assert "train/swr/norm/transformer.wte.weight" in found
    assert at == [3, 6]


def test_other_methods_are_refused_with_a_reason():
    with pytest.raises(swr.OptionError, match="JSON"):
        SWRCallback(rescaler=methods.build("l2-init", gpt2(), coefficient=0.1))


def test_a_ready_rescaler_is_used_as_it_is(tmp_path):
    model = gpt2()
    rescaler = swr.SoftWeightRescaling(model, plan=plan(), coefficient=COEFFICIENT)
    runner, _ = trainer(tmp_path, model=model, callback=SWRCallback(rescaler=rescaler))
    runner.train()
    assert steps(rescaler) == [6]


BERT = {"vocab_size": 16, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
LLAMA = {**BERT, "num_key_value_heads": 1, "rms_norm_eps": 1e-12, "pad_token_id": None}
MODELS = {
    "gpt2": lambda: gpt2(layer_norm_epsilon=1e-12, attn_pdrop=0.1),
    "gpt2, open attention": lambda: gpt2(layer_norm_epsilon=1e-12, attn_implementation="eager"),
    "bert": lambda: BertForSequenceClassification(BertConfig(**BERT)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**LLAMA)),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_transformers_are_analysed_and_their_function_is_kept_but_for_one_constant(name):
    torch.manual_seed(0)
    model = MODELS[name]()
    ids = torch.randint(1, 16, (2, LENGTH))
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    inputs = {"input_ids": ids, "attention_mask": mask}
    cache = getattr(model.config, "use_cache", None)
    plan = swr.analyze(model, kwargs=inputs)
    assert plan.verify(model, kwargs=inputs) < 1e-6
    assert not plan.held
    assert len(plan.scaled) > 10
    assert getattr(model.config, "use_cache", None) == cache, "the configuration was changed"
