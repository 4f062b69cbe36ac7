"""`cdc-ops`: the same steps as in Airflow, from a shell, with Spark in this process.

Exit codes: 0 done (idle tables included), 2 wrong usage, configuration or request, 3 the source refuses, 4 ledger and lake disagree or the
table is not ours, 5 some tables failed and need somebody, 6 failed in a way that running again may heal, 7 no table
failed, but one waits at a gap in its archive for somebody, 1 anything unforeseen.
"""

from cdc_ops.cli.commands import (  # noqa: F401  each module registers its commands
    changes,
    check,
    formats,
    gaps,
    history,
    ledger,
    quarantine,
    unlock,
    verify,
    version,
    view,
)
from cdc_ops.cli.commands.pipelines import app, main

__all__ = ["app", "main"]
