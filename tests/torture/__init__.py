"""A machine that looks for silent errors: random tables, policies, workloads and faults, and an oracle that knows nothing of the package.

    python -m tests.torture --server postgres --seconds 600     # new seeds, until the time is over
    python -m tests.torture --server postgres --seed 17          # one again
    python -m tests.torture --server postgres --shrink 17        # the smallest case that fails as it does

A `Case` is plain data, made from a seed alone (`generate`). It is played on a real server through the command line (`play`, `driver`), and
judged by the server's own text of each value against the Delta log and its Parquet files, read here (`oracle`). README.md says more.
"""
