"""What became of a case."""

from dataclasses import dataclass, field


@dataclass
class Outcome:
    """What became of a case.

    Args:
        differences: By table, what does not fit; "" for the archive.
        refusals: By table, the names of errors by which it was refused at the end.
        broken: Runs that ended in a way that no user should see.
        rereads: What was read again, and whether it was.
        seconds: How long it took.
        statements: How many statements of the workload there were.
        refused_statements: How many statements of the workload the server itself refused.
    """

    differences: dict[str, list[str]] = field(default_factory=dict)
    refusals: dict[str, list[str]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    rereads: list[str] = field(default_factory=list)
    seconds: float = 0.0
    statements: int = 0
    refused_statements: int = 0

    @property
    def failed(self) -> bool:
        return bool(self.broken or any(self.differences.values()))

    @property
    def signature(self) -> frozenset[str]:
        """The kinds of what went wrong, without tables, keys and numbers: what a smaller case has to show too."""
        words = {text.partition(":")[0] for texts in self.differences.values() for text in texts}
        return frozenset(words | {f"broken {text.partition(chr(10))[0][:60]}" for text in self.broken})
