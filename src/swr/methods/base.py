"""What every method is: hooks around a training loop, ours or the user's, and a state that can be saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from swr.checks import choice
from swr.errors import AttachError, StateError
from swr.hooks import Handle, attachable
from swr.methods.tools.penalty_gradients import add_to_gradients, differentiate, held_by
from swr.methods.tools.tuning import Tuning

Batches = Iterable[tuple[Tensor, Tensor]]
"""inputs and targets, batch by batch"""

LossFunction = Callable[[Tensor, Tensor], Tensor]
"""outputs, targets -> the mean loss"""

PenaltyIn = Literal["gradients", "loss"]
"""where an attached method's penalty acts"""


Turn = Literal["first", "any", "last"]
"""a method's place among others that act after the same step"""


class Method:
    """Something done to a network while it trains; the base does nothing.

    It acts at up to four moments. After ``attach(optimizer)`` a loop calls ``new_task`` and nothing else:

        loss.backward()
        the penalty's gradient is added   before_step()   optimizer.step()   step()       called by the optimizer
        new_task(batches, loss_fn)                                                        the training data changed

    A loop that wants the penalty in its loss adds :meth:`penalty` there, and does not attach the method, or attaches it with
    ``attach(optimizer, penalty="loss")``. Both at once would count it twice, and is refused.

    >>> class Clip(Method):
    ...     title = "clipping"
    ...     def step(self):
    ...         for p in self.model.parameters():
    ...             p.data.clamp_(-1, 1)

    A method that needs activations registers forward hooks on ``model`` itself, keeps what it needs, and removes them
    in :meth:`close`. One that draws random numbers uses ``self.generator``, which is part of its state. One that
    touches the optimizer's state finds it as ``self.optimizer``. Parameters are always changed in place.

    Args:
        model: the network, before it is wrapped; its parameters now are θ_0.
        example_inputs: a batch of inputs, for methods that have to trace the model.
        seed: of ``self.generator``; the same on every process of a data-parallel training.
    """

    name: ClassVar[str] = ""
    """in the registry, on the command line and in run identities"""
    title: ClassVar[str] = ""
    """as it stands in tables"""
    symbols: ClassVar[Mapping[str, str]] = {}
    """the hyper-parameters that are swept, by keyword, with the paper's symbol"""
    owns: ClassVar[frozenset[str]] = frozenset()
    """what it alone decides, in words; methods that decide the same cannot be combined"""
    tuning: ClassVar[Tuning] = ({},)
    """what a fair comparison tries: at most five configurations from its paper's range, neighbours next to each other"""
    turn: ClassVar[Turn] = "any"
    """when it acts after a step, combined with others: "first" if it reads the optimizer's update, "last" if it averages"""
    only_at_new_task: ClassVar[bool] = False
    """nothing but :meth:`new_task` acts: until it is first called, model, optimizer and random numbers are bit for bit those of
    plain training, and the method's own state is as it was built. A class says so for itself, it does not inherit it"""

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, seed: int = 0) -> None:
        self.model = model
        self.generator = torch.Generator().manual_seed(seed)
        self._handle: Handle | None = None
        self._penalty_in: PenaltyIn = "gradients"
        self._adding = False
        """whether it is add_penalty that asks for the penalty"""
        self._added: Tensor | None = None
        self._composed = False
        """whether it is being attached by a composition, which adds its penalty"""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.only_at_new_task = vars(cls).get("only_at_new_task", False)
        if old := {"_state", "_load"} & set(vars(cls)):
            raise TypeError(f"{cls.__name__} overrides {min(old)}(): a method's state is state() and load_state(state).")
        if "penalty" in vars(cls):
            cls.penalty = _counted_once(cls.penalty)  # type: ignore[method-assign]

    def penalty(self) -> Tensor | None:
        """What to add to the loss, or None. Refused while an attached optimizer adds its gradient."""
        return None

    def add_penalty(self, optimizer: Optimizer) -> None:
        """Add the gradient of :meth:`penalty` to the gradients; the attached optimizer calls it before each step.

        A method that knows the gradient overrides this and :meth:`added_penalty`, and spares autograd the work.
        """
        held = held_by(optimizer, list(self.model.parameters()))
        self._adding = True
        try:
            with torch.enable_grad():
                penalty = self.penalty()
        finally:
            self._adding = False
        self._added = None if penalty is None else penalty.detach()
        if penalty is not None:
            add_to_gradients(optimizer, *differentiate(penalty, held))

    def added_penalty(self) -> Tensor | None:
        """The value whose gradient :meth:`add_penalty` has just added; the loss of a closure grows by it."""
        return self._added

    def before_step(self, optimizer: Optimizer | None = None) -> None:
        """Between backward and the optimizer's step."""

    def step(self) -> None:
        """Right after the optimizer's step."""

    def after_step(self, optimizer: Optimizer) -> None:
        """What the optimizer calls: :meth:`step`."""
        self.step()

    def new_task(self, batches: Batches | None = None, loss_fn: LossFunction | None = None) -> None:
        """The training data changed; not called before the first data.

        Args:
            batches: the new data, for methods that look at it.
            loss_fn: the mean loss of outputs and targets.
        """

    def attach(self, optimizer: Optimizer, *, penalty: PenaltyIn = "gradients") -> Handle:
        """Let this optimizer call the method around each of its steps; ``remove()`` on the handle undoes it.

        Args:
            optimizer: one that holds parameters of the model, or a wrapper such as Accelerate's, which is unwrapped.
            penalty: where a penalty acts. "gradients": its gradient is added before each step, and nothing is left to do.
                "loss": the loop adds :meth:`penalty` to its loss.
        """
        optimizer = attachable(optimizer, self.model, self._handle)
        choice(penalty, "penalty", get_args(PenaltyIn))
        kind = type(self)
        adds = penalty == "gradients" and kind.penalty is not Method.penalty and not self._composed
        acts_before = kind.before_step is not Method.before_step
        acts_after = kind.step is not Method.step or kind.after_step is not Method.after_step

        def before(optimizer: Optimizer) -> None:
            if adds:
                self.add_penalty(optimizer)
            if acts_before:
                self.before_step(optimizer)

        self._penalty_in = penalty
        self._handle = Handle(
            optimizer,
            before=before if adds or acts_before else None,
            after=self.after_step if acts_after else None,
            added=self.added_penalty if adds else None,
        )
        return self._handle

    @property
    def attached(self) -> bool:
        """Whether an optimizer calls the method."""
        return self._handle is not None and self._handle.active

    @property
    def optimizer(self) -> Optimizer | None:
        """The optimizer it is attached to."""
        return self._handle.optimizer if self._handle is not None and self._handle.active else None

    def close(self) -> None:
        """Detach from the optimizer and remove every hook."""
        if self._handle is not None:
            self._handle.remove()

    def state_dict(self) -> dict[str, Any]:
        """Everything the method has to remember, the random generator included; plain data and tensors."""
        return {"generator": self.generator.get_state(), **self.state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where :meth:`state_dict` was taken."""
        expected = {"generator", *self.state()}
        if not isinstance(state, Mapping) or set(state) != expected:
            found = ", ".join(sorted(map(str, state))) if isinstance(state, Mapping) else type(state).__name__
            raise StateError(
                f"this is not the state of {type(self).__name__}: "
                f"expected {', '.join(sorted(expected))}, found {found or 'nothing'}."
            )
        self.load_state({key: value for key, value in state.items() if key != "generator"})
        self.generator.set_state(state["generator"])

    def state(self) -> dict[str, Any]:
        """What has to be saved besides the random generator: tensors and plain data; a method overrides it.

        The keys are the same at any time, so that a state of something else is recognised.
        """
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`, whose keys have been checked; a method overrides it."""


def _counted_once(penalty: Callable[..., Tensor | None]) -> Callable[..., Tensor | None]:
    """The same function, which refuses while an attached optimizer adds the penalty's gradient."""

    @wraps(penalty)
    def guarded(self: Method, *args: Any, **kwargs: Any) -> Tensor | None:
        if self.attached and self._penalty_in == "gradients" and not self._adding:
            raise AttachError(
                "the attached optimizer adds this penalty's gradient before each step, so penalty() in the loss would count it "
                'twice: leave it out of the loss, or attach(optimizer, penalty="loss").'
            )
        return penalty(self, *args, **kwargs)

    return guarded


def learnable(model: nn.Module) -> dict[str, nn.Parameter]:
    """θ: every parameter that is trained, once, by name."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def saved(parameters: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
    """A copy of the parameters as they are now: θ_0."""
    return {name: p.detach().clone() for name, p in parameters.items()}


def restore(target: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> None:
    """Copy saved parameters into place, checking that they belong to the same model."""
    if other := sorted(set(target) ^ set(state)):
        raise StateError(f"the state belongs to another model: the parameter {other[0]!r} is in only one of them.")
    for name, tensor in target.items():
        if tensor.shape != state[name].shape:
            raise StateError(
                f"the state belongs to another model: {name} is {list(tensor.shape)}, in the state {list(state[name].shape)}."
            )
    with torch.no_grad():
        for name, tensor in target.items():
            tensor.copy_(state[name])
