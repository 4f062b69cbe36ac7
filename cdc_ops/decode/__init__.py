"""The compiled decoder: bytes become columns of Arrow at memory speed, in numba functions that know no table. Spark-free.

    input (numpy uint8)  --front end-->  cells  --text_columns-->  values + marks  --exact.py-->  values  -->  pyarrow RecordBatch

Kernels take what is *plain* by a strict grammar and mark everything else; what is marked goes, as its bytes, through exact code in plain
Python. So no rule of exactness is written twice: a mark too many costs time, a mark too few is a defect. Kernels never
raise on bytes, and never read outside of the places that they are given.

To add a front end:

1. *Say what the columns are*: `Program.of([Field.of("id", "bigint"), Field.of("price", "decimal(10,2)", nullable=False), ...])`, with the
   types of Spark's DDL. `program.arrays` are its kinds, widths, precisions and scales for your kernels.
2. *Find the values.* Write a kernel in a folder of this package (the key of the machine code on disk covers it), with a fixed signature:

       @kernel(types.int64(PROGRAM, CELLS, BYTES, types.int64, types.int64))
       def scan_lines(program: ProgramArrays, cells: Cells, data: Bytes, start: int, end: int) -> int: ...

   It fills `cells.low`, `.high` and `.state` at [column, row]: for texts that are still to be decoded the place in `data` and TEXT; for
   values that it decodes itself (binary formats) the value and VALUE, see `Cells`; NULL, ABSENT; or MARKED with the place of the bytes.
   It stops when the cells are full and returns how far it came. What it calls is decorated with `helper`, the grammars among it:
   `cdc_ops.decode.plain`: `plain_integer`, `plain_decimal`, `plain_double`, `float_of_double`, `plain_date`, `plain_date_time`,
   `plain_instant`, `plain_boolean`, `is_utf8`, `days_since_1970`; they take the buffer, a start and an end, and return the value and
   whether they took it.
3. *Drive it*:

       batch = Batch(program, 16_384)
       rows = scan_lines(program.arrays, batch.cells, data, 0, data.size)
       if batch.decode_texts(data, rows):                    # makes values of the cells in the state TEXT; how many are marked
           for row, column in batch.marked(rows):
               batch.put(row, column, exact(batch.bytes_of(row, column, data)))
       yield batch.record_batch(data, rows)                  # of its own memory; refuses while a cell is marked
       batch.clear()

   Whole records that are not plain are your front end's to set aside; a cell that is not touched is NULL.

Mind in kernels: int64 and uint64 together become float64, so wrap constants (`np.uint64(10)`); an input is `BYTES`, which may be read-only;
a loop over one column is quicker than one over one row. `warm_up` compiles or loads every kernel; call it before anything is timed.
Kernels cannot call each other; what they share is a `helper`. A new module of kernels has its name in `_KERNELS` below.
Import modules of kernels only where `is_available()`; this module imports neither numba nor pyarrow.
"""

from functools import lru_cache
from importlib import import_module

_NEEDED = ("numpy", "numba", "pyarrow")


@lru_cache(maxsize=1)
def why_unavailable() -> str:
    """Returns why this process cannot decode with kernels, "" if it can; imports what they need."""
    for name in _NEEDED:
        try:
            import_module(name)
        except ImportError as error:  # numba also says so of a numpy that it does not know
            return f"{name} cannot be imported: {error}"
    return ""


def is_available() -> bool:
    """True if this process has what the kernels need."""
    return not why_unavailable()


def warm_up() -> int:
    """Compiles or loads all kernels, which takes some seconds once per machine; returns their number, 0 where they are not available."""
    if not is_available():
        return 0
    for name in _KERNELS:
        import_module(name)
    from cdc_ops.decode import compiler

    return compiler.warm_up()


_KERNELS = (
    "cdc_ops.decode.text_columns",
    "cdc_ops.decode.wire.mysql_packets",
    "cdc_ops.decode.wire.libpq_blocks",
    "cdc_ops.decode.wire.postgres_tuples",
    "cdc_ops.decode.binlog.events",
    "cdc_ops.decode.binlog.rows",
    "cdc_ops.decode.binlog.transactions",
)
"""Modules with kernels: a new one has its name here."""
