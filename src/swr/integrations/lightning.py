"""Soft Weight Rescaling in a Lightning Trainer: attach, log, save and restore."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from swr.errors import OptionError
from swr.hooks import Handle
from swr.integrations.common import Recipe, holders, measured
from swr.methods import Method
from swr.rescaling import SoftWeightRescaling

if TYPE_CHECKING or find_spec("lightning") is not None:
    from lightning.pytorch import Callback, LightningModule, Trainer
elif find_spec("pytorch_lightning") is not None:
    from pytorch_lightning import Callback, LightningModule, Trainer
else:
    raise ModuleNotFoundError("swr.integrations.lightning needs Lightning; install it: pip install lightning", name="lightning")


class SWRCallback(Callback):
    """Rescale a LightningModule after every real step of its optimizer, or of each of several.

    The module is analysed in ``setup``, before the strategy wraps it. A module that has no parameters before
    ``configure_model`` is analysed right after that. Its norms at this time are the anchors, also for later calls of ``fit``.
    Norms ‖W_l‖ and scalers c_l are logged every ``log_every_n_steps``. The state is saved in the Trainer's checkpoints.

    >>> callback = SWRCallback(x, coefficient=1e-3)  # then Trainer(callbacks=[callback])
    >>> callback = SWRCallback(rescaler=SoftWeightRescaling(model, x))  # only one network of several

    Args:
        example_inputs: inputs of ``forward``, a tensor or a tuple; by default the module's ``example_input_array``.
        rescaler: a :class:`swr.SoftWeightRescaling` or another method of :mod:`swr.methods`, instead of the other arguments.
        options: the other options of :class:`swr.SoftWeightRescaling`.
    """

    rescaler: SoftWeightRescaling | Method | None

    def __init__(
        self, example_inputs: Any = None, *, rescaler: SoftWeightRescaling | Method | None = None, **options: Any
    ) -> None:
        self.rescaler = rescaler
        self._ready = rescaler is not None
        self._recipe = Recipe(example_inputs, options, ready=self._ready)
        self._handles: list[Handle] = []
        self._restored: dict[str, Any] | None = None
        self._fitting = True
        self._step = 0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Analyse the module before it is wrapped."""
        self._fitting = stage == "fit"
        if self._fitting and any(True for _ in pl_module.parameters()):
            self._prepare(pl_module)

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Analyse a module that was built in ``configure_model``."""
        self._prepare(pl_module)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Attach, and continue from a checkpoint that was loaded."""
        assert self.rescaler is not None  # since on_fit_start
        self._detach()
        self._handles = [
            self.rescaler.attach(o) for o in holders(self.rescaler.model, trainer.optimizers, "configure_optimizers")
        ]
        if self._restored is not None:
            self.rescaler.load_state_dict(self._restored)
            self._restored = None
        self._step = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Log when Lightning does, and only after a real step, because measuring waits for the device."""
        stepped, self._step = trainer.global_step != self._step, trainer.global_step
        rescaler = getattr(self.rescaler, "rescaler", self.rescaler)
        if not (stepped and trainer.loggers and isinstance(rescaler, SoftWeightRescaling)):
            return
        if trainer._logger_connector.should_update_logs:  # as Lightning's own monitors do
            pl_module.log_dict(measured(rescaler))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Detach: the next fit builds new optimizers."""
        self._detach()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Detach after a fit that raised."""
        self._detach()

    def state_dict(self) -> dict[str, Any]:
        """The state for the checkpoint."""
        return self.rescaler.state_dict() if self.rescaler is not None else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep the state until training starts; a checkpoint loaded for evaluation does not change the training state."""
        if self._fitting:
            self._restored = state_dict

    def _prepare(self, module: LightningModule) -> None:
        if self._ready or (self.rescaler is not None and self.rescaler.model is module):
            return
        if not self._recipe.complete:
            example = module.example_input_array
            if example is None:
                raise OptionError(
                    f"example inputs are needed to trace {type(module).__name__}; pass SWRCallback(example_inputs, …), "
                    "set self.example_input_array in the module, or pass rescaler=swr.SoftWeightRescaling(self.net, …)."
                )
            if isinstance(example, Mapping):
                self._recipe.options["kwargs"] = example
            else:
                self._recipe.example_inputs = example
        self.rescaler = self._recipe.make(module)

    def _detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
