"""`cdc-ops`: the same steps as in Airflow, from a shell, with Spark in this process.

Exit codes: 0 done (idle tables included), 2 wrong usage, configuration or request, 3 the source refuses, 4 ledger and lake disagree or the
table is not ours, 5 some tables failed and need somebody, 6 failed in a way that running again may heal, 7 no table
failed, but one waits at a gap in its archive for somebody, 1 anything unforeseen.
"""

from cdc_ops.cli import changes as changes  # registers its command
from cdc_ops.cli import check as check  # registers its command
from cdc_ops.cli import formats as formats  # registers its commands
from cdc_ops.cli import gaps as gaps  # registers its commands
from cdc_ops.cli import history as history  # registers its commands
from cdc_ops.cli import inspection as inspection  # registers its commands
from cdc_ops.cli import quarantine as quarantine
from cdc_ops.cli import unlocking as unlocking  # registers its command
from cdc_ops.cli import verify as verify  # registers its command
from cdc_ops.cli import versions as versions  # registers --version
from cdc_ops.cli import views as views  # registers its command
from cdc_ops.cli.commands import app, main

__all__ = ["app", "main"]
