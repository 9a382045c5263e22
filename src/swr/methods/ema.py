"""EMA: evaluate an exponential moving average of the weights."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, ClassVar

from torch import nn

from swr.checks import fraction
from swr.methods.base import Method, Turn
from swr.methods.tools.evaluation_copy import EvaluationCopy
from swr.methods.tools.tuning import along


class EMA(Method):
    """Average the weights over the last steps and evaluate the average; training itself is not changed.

        φ <- μ_t φ + (1 - μ_t) θ   after every step,   μ_t = min(μ, (1 + t) / (10 + t)),   t = steps so far,   φ_0 = θ_0

    With μ_t the average is one over about the last tenth of the steps until it is as long as 1 / (1 - μ), so that a short
    training does not evaluate its initialisation. A correction of the bias, as Adam's, would weigh all steps from the first
    equally in that time. For θ_0 = 1, then 2 and 3: μ_0 = 0.1, φ = 1.9; μ_1 = 2/11, φ = 2.8.

    The model holds θ. **The average is evaluated**: whenever the model is called in evaluation mode (``model.eval()``) it runs
    with φ, and holds θ again afterwards.

    >>> method = EMA(model, momentum=0.998)
    >>> handle = method.attach(optimizer)
    >>> with method.average():  # φ in place, to save it
    ...     slow = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    When:
        After every step, and after what other methods do at that step; new tasks change nothing.

    Touches:
        Nothing that is trained. Learnable parameters and buffers of floating-point numbers (running statistics) are averaged.
        The averaged statistics of a batch normalisation are close to those of the averaged weights, not equal to them:
        ``torch.optim.swa_utils.update_bn`` inside ``average()`` computes these.

    Keeps:
        φ, once more the size of the model, and t.

    Differences:
        With SWR the weights are averaged as they are, and φ is not multiplied along when SWR rescales them. While the norms are
        steady, because growth and rescaling cancel, the average of equal scales is exact; multiplying along would shrink
        weights and biases by different factors. While the norms drift, φ is off by their drift in 1 / (1 - μ) steps.

    Args:
        momentum: μ in [0, 1].

    References:
        B. Polyak, A. Juditsky, 1992, "Acceleration of Stochastic Approximation by Averaging"; μ_t is that of TensorFlow's
        ExponentialMovingAverage.
    """

    name = "ema"
    title = "EMA"
    tuning = along("momentum", 0.9, 0.99, 0.998, 0.999, 0.9999)
    symbols = {"momentum": "μ"}  # noqa: RUF012
    owns = frozenset({"which copy of the weights is evaluated"})
    turn: ClassVar[Turn] = "last"

    def __init__(self, model: nn.Module, example_inputs: Any = None, *, momentum: float = 0.998, seed: int = 0) -> None:
        super().__init__(model, example_inputs, seed=seed)
        self.momentum = fraction(momentum, "momentum μ")
        self._copy = EvaluationCopy(model)
        self._steps = 0

    def step(self) -> None:
        """φ <- μ_t φ + (1 - μ_t) θ."""
        self._copy.average(min(self.momentum, (1 + self._steps) / (10 + self._steps)))
        self._steps += 1

    def average(self) -> AbstractContextManager[None]:
        """Inside, the model holds φ."""
        return self._copy.in_place()

    def close(self) -> None:
        """Detach from the optimizer; the model is evaluated as it is again."""
        super().close()
        self._copy.close()

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {"steps": self._steps, "average": dict(self._copy.tensors)}

    def load_state(self, state: dict[str, Any]) -> None:
        """The reverse of :meth:`state`."""
        self._copy.load(state["average"])
        self._steps = int(state["steps"])
