"""Measurements side by side with a peer, in one run on one machine: each prints ratios, none asserts a time.

    make bench                                       all of them
    .local/venv/bin/python -m benchmarks.snapshot    one; --help lists its options

What makes a figure worthless is asserted: a table that does not equal its source, an idle run that was not idle.
"""
