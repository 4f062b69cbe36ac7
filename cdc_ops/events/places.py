"""Places of events in their order: numbers, most significant first, of one type whatever positions are made of."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from cdc_ops.core.events.format_spec import OrderField

_LOW: Final = 10**18
Place = tuple[int, ...]


def place_maker(order: Sequence[OrderField], without: Iterable[str] = ()) -> Callable[[Sequence[int | None]], tuple[int | None, ...]]:
    """Returns the function that makes the place of a position.

    A part that is a decimal becomes two numbers, because it may have more digits than 64 bits: the leading digits, and the last 18.

    >>> from cdc_ops.core.events.format_spec import OrderField
    >>> order = (OrderField(name="scn", type="decimal(38,0)", meaning=""), OrderField(name="row", type="bigint", meaning=""))
    >>> place_maker(order)((5 * 10**18 + 7, 3)), place_maker(order)((-1, 3))
    ((5, 7, 3), (-1, 999999999999999999, 3))

    Args:
        order: The parts of positions.
        without: Parts to leave out, by name.
    """
    left_out = set(without)
    wide = [(index, part.type.startswith("decimal")) for index, part in enumerate(order) if part.name not in left_out]

    def place(position: Sequence[int | None]) -> tuple[int | None, ...]:
        numbers: list[int | None] = []
        for index, is_wide in wide:
            number = position[index]
            if not is_wide:
                numbers.append(number)
            elif number is None:
                numbers += [None, None]
            else:
                numbers += [-1 if number < 0 else number // _LOW, number % _LOW]
        return tuple(numbers)

    if len(wide) == len(order) and not any(is_wide for _, is_wide in wide):
        return tuple
    return place
