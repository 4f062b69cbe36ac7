"""Kernels of binlogs: numba functions that walk events, verify their checksums, and decode rows into cells. Spark-free.

    bytes of a file --events.list_rows--> events with rows of the tables asked for --rows.decode_rows--> cells

| module | holds |
|---|---|
| `layout` | how columns lie in rows, and what becomes of them |
| `bytes_of_events` | numbers of an event's bytes |
| `checksums` | CRC-32 at memory speed |
| `events` | the walk over events |
| `values` | numbers, decimals, dates and times of rows |
| `rows` | the loop over rows and columns |

What is plain is decided here; what a value means, the reference decoder says (`cdc_ops.events.binlog`), which gets everything that is not.
"""
