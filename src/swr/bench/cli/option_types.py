"""How the command line reads numbers and lists of names, with errors that say what to write."""

from collections.abc import Callable
from typing import Annotated, Any

from tyro.constructors import PrimitiveConstructorSpec


def _number(kind: Callable[[str], Any], metavar: str, wanted: str) -> PrimitiveConstructorSpec[Any]:
    def read(given: list[str]) -> Any:
        try:
            return kind(given[0])
        except ValueError:
            raise ValueError(f"must be {wanted}, found {given[0]!r}.") from None

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=read,
        is_instance=lambda value: value is None or isinstance(value, int | float),
        str_from_instance=lambda value: [str(value)],
    )


def _names(given: list[str]) -> tuple[str, ...]:
    """An option that is given without a name chooses nothing, which is not the same as leaving it out."""
    return tuple(given) or ("",)


Whole = Annotated[int, _number(int, "N", "a whole number")]
WholeOrDefault = Annotated[int | None, _number(int, "N", "a whole number")]
Factor = Annotated[float, _number(float, "F", "a number")]
Names = Annotated[
    tuple[str, ...],
    PrimitiveConstructorSpec(
        nargs="*",
        metavar="NAME …",
        instance_from_str=_names,
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=list,
    ),
]
"""empty when the option is left out"""
