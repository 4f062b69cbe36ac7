"""Generated histories of one table: changes of rows as a source makes them, with partial updates, changed keys and TRUNCATE."""

from random import Random

from cdc_ops.core.events.format_spec import EventOperation
from cdc_ops.testing.folding import Change

COLUMNS = ("id", "a", "b")


def history_of(random: Random, *, truncates: bool = True, longest: int = 25) -> list[Change]:
    """Makes a history that a source can have: only rows that are there are updated and deleted."""
    alive: set[int] = set()
    history = []
    for number in range(random.randint(0, longest)):
        position = (number // 3, number % 3)
        kind = random.choice("ccuuuudkt" if truncates else "ccuuuudk")
        if kind == "t":
            alive.clear()
            history.append(Change(op=EventOperation.TRUNCATE, position=position))
        elif kind == "c" or not alive:
            key = random.randint(1, 4)
            alive.add(key)
            op = random.choice((EventOperation.CREATE, EventOperation.READ))
            history.append(Change(op=op, position=position, key=(key,), values=_values(random, key, COLUMNS[1:])))
        else:
            history.append(_of_row(random, kind, position, alive))
    return history


def batches_of(random: Random, history: list[Change]) -> list[list[Change]]:
    """Cuts a history into batches, each in any order, with events of its own and of older batches delivered again."""
    cuts = sorted(random.randint(0, len(history)) for _ in range(random.randint(0, 4)))
    parts = []
    for low, high in zip([0, *cuts], [*cuts, len(history)], strict=True):
        again = [random.choice(history[:high]) for _ in range(random.randint(0, 5))] if high else []
        part = [*history[low:high], *again]
        random.shuffle(part)
        parts.append(part)
    return parts


def _of_row(random: Random, kind: str, position: tuple[int, ...], alive: set[int]) -> Change:
    row = random.choice(sorted(alive))
    free = sorted({1, 2, 3, 4, 5} - alive)
    if kind == "d":
        alive.discard(row)
        return Change(op=EventOperation.DELETE, position=position, key=(row,))
    if kind == "k" and free:
        key = random.choice(free)
        alive.symmetric_difference_update({row, key})
        return Change(
            op=EventOperation.UPDATE, position=position, key=(key,), previous_key=(row,), values=_values(random, key, COLUMNS[1:])
        )
    named = [name for name in COLUMNS[1:] if random.random() < 0.6]
    return Change(op=EventOperation.UPDATE, position=position, key=(row,), values=_values(random, row, named))


def _values(random: Random, key: int, named: tuple[str, ...] | list[str]) -> dict[str, int | None]:
    return {"id": key, **{name: random.choice((None, random.randint(0, 9))) for name in named}}
