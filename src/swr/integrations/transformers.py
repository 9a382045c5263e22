"""Soft Weight Rescaling in the Trainer of transformers: attach, log, save and restore."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from torch import nn

from swr.algebra.plan import ScalePlan
from swr.errors import OptionError
from swr.hooks import Handle
from swr.integrations.common import Recipe, measured
from swr.rescaling import SoftWeightRescaling

if TYPE_CHECKING or find_spec("transformers") is not None:
    from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK
    from transformers.trainer_callback import CallbackHandler, ExportableState
else:
    raise ModuleNotFoundError(
        'swr.integrations.transformers needs transformers; install it: pip install "transformers[torch]"', name="transformers"
    )

_OF_THE_ANALYSIS = ("kwargs", "plan", "inhomogeneous")  # options that are not needed with a plan


class SWRCallback(TrainerCallback, ExportableState):
    """Rescale the Trainer's model after every real step of its optimizer.

    The model is analysed when the Trainer is built, before it is wrapped. Its norms at this time are the anchors. The state is
    saved in ``trainer_state.json`` of every checkpoint and restored by ``train(resume_from_checkpoint=...)``. Norms ‖W_l‖ and
    scalers c_l are added to ``trainer.state.log_history`` whenever the training loss is logged.

    >>> ids = torch.zeros(1, 8, dtype=torch.long)
    >>> callback = SWRCallback(kwargs={"input_ids": ids}, coefficient=1e-3)  # then Trainer(callbacks=[callback])

    The Trainer calls its reporters (TensorBoard, W&B, …) before the callbacks of the user. Call
    ``callback.report_through(trainer)`` to pass the values to the reporters too.

    Args:
        example_inputs: positional inputs of the model, without labels: a loss is not homogeneous and would hold the scale of
            the output.
        rescaler: a :class:`swr.SoftWeightRescaling` instead of the other arguments.
        options: ``kwargs``, the keyword inputs of the model (without labels), and the other options of
            :class:`swr.SoftWeightRescaling`.

    Raises:
        OptionError: ``rescaler`` is another method, or options were given beside it.
    """

    rescaler: SoftWeightRescaling | None

    def __init__(self, example_inputs: Any = None, *, rescaler: SoftWeightRescaling | None = None, **options: Any) -> None:
        if rescaler is not None and not isinstance(rescaler, SoftWeightRescaling):
            raise OptionError(
                f"rescaler must be a swr.SoftWeightRescaling, found {type(rescaler).__name__}: the Trainer keeps the state of "
                "callbacks as JSON, which cannot hold tensors. Attach other methods to the optimizer yourself."
            )
        self.rescaler = rescaler
        self._ready = rescaler is not None
        self._recipe = Recipe(example_inputs, options, ready=self._ready)
        self._handle: Handle | None = None
        self._handler: CallbackHandler | None = None
        self.rebuild: dict[str, Any] | None = None  # set by the Trainer when it restores callbacks from a checkpoint

    def report_through(self, trainer: Trainer) -> None:
        """Pass norms and scalers to the reporters of this Trainer."""
        self._handler = trainer.callback_handler

    def on_init_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, model: Any = None, **kwargs: Any
    ) -> None:
        """Analyse the model before it is wrapped."""
        self._prepare(model)

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        model: Any = None,
        optimizer: Any = None,
        **kwargs: Any,
    ) -> None:
        """Attach, and continue from the checkpoint that was loaded."""
        rescaler = self._prepare(model)
        self._detach()
        self._handle = rescaler.attach(optimizer)
        states: dict[str, Any] = state.stateful_callbacks  # type: ignore[assignment]  # annotated as the constructor's argument
        saved = states.get(type(self).__name__)
        if state.global_step and saved:
            rescaler.load_state_dict(saved["attributes"]["saved"])
        states[type(self).__name__] = self.state()  # the Trainer expects one, also after a checkpoint that had none

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **kwargs: Any
    ) -> None:
        """Log when the Trainer logs its training loss, because measuring waits for the device."""
        if self.rescaler is None or self._handle is None or "loss" not in (logs or {}):
            return
        values = measured(self.rescaler)
        state.log_history[-1].update(values)
        reporters: tuple[type[TrainerCallback], ...] = tuple(INTEGRATION_TO_CALLBACK.values())
        for callback in self._handler.callbacks if self._handler is not None else ():
            if isinstance(callback, reporters):
                callback.on_log(args, state, control, logs=dict(values), **kwargs)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Detach; the anchors are kept for the next ``train()``."""
        self._detach()

    def state(self) -> dict[str, Any]:
        """What the Trainer writes into ``trainer_state.json``."""
        if self.rescaler is None:
            return {"args": {}, "attributes": {}}
        attributes: dict[str, Any] = {"saved": self.rescaler.state_dict()}
        if not self._ready:
            options = {key: value for key, value in self._recipe.options.items() if key not in _OF_THE_ANALYSIS}
            attributes["rebuild"] = {"plan": self.rescaler.plan.to_json(), "options": options}
        return {"args": {}, "attributes": attributes}

    def _prepare(self, model: nn.Module) -> SoftWeightRescaling:
        if self.rescaler is not None and (self._ready or self.rescaler.model is model):
            return self.rescaler
        if not self._recipe.complete and self.rebuild is not None:
            plan = ScalePlan.from_json(self.rebuild["plan"])
            self._recipe = Recipe(None, {**self.rebuild["options"], "plan": plan}, ready=False)
        self.rescaler = self._recipe.make(model)
        return self.rescaler

    def _detach(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
