"""`cdc-ops`: the same steps as in Airflow, from a shell, with Spark in this process.

Exit codes: 0 done (idle tables included), 2 wrong usage, configuration or request, 3 the source refuses, 4 ledger and lake disagree or the
table is not ours, 5 some tables failed and need somebody, 6 failed in a way that running again may heal, 7 no table
failed, but one waits at a gap in its archive for somebody, 130 ended by Ctrl-C, 143 ended by SIGTERM
([what that does](recover.md#ctrl-c-and-sigterm)), 1 anything unforeseen.
"""

from importlib import import_module
from pkgutil import walk_packages

from cdc_ops.cli import commands
from cdc_ops.cli.commands.pipelines import app, main

for _module in walk_packages(commands.__path__, f"{commands.__name__}."):  # each registers its commands
    import_module(_module.name)

__all__ = ["app", "main"]
