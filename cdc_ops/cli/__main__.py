"""`python -m cdc_ops.cli`: the same as `cdc-ops`."""

from cdc_ops.cli import main

main()
