"""What of a Sqoop import is not in the pipeline file as it was, one remark for each option."""

import enum
from dataclasses import dataclass


class Weight(enum.StrEnum):
    """How much a remark matters; the first is shown first."""

    LOSES = "loses"
    """Rows, changes or deletes at the source would not reach the lake."""
    DIFFERS = "differs"
    """The result is something else than with Sqoop."""
    LEFT_OUT = "left out"
    """The option has no place in a pipeline file, and nothing is missing without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One remark.

    Args:
        weight: How much it matters.
        about: The option, or the table that it is about.
        text: What is so, and what to do if that is not wanted.
    """

    weight: Weight
    about: str
    text: str

    @property
    def line(self) -> str:
        """The remark as one line."""
        return " ".join(f"{self.about}: {self.text}".split())
