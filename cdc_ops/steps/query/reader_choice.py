"""How the tasks of a Spark application read the source's rows: found out once, before anything is read."""

import logging

from pyspark.sql import SparkSession

from cdc_ops.core.apply.apply_spec import Landing
from cdc_ops.core.operation.job import JobSpec, Step
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.pipeline.pipeline import Reader
from cdc_ops.decode.kernel_folder import FIRST_TIME, is_uncompiled
from cdc_ops.errors import EnvironmentSetupError
from cdc_ops.sources.base import Source
from cdc_ops.steps.query.native_rows import why_not_native

logger = logging.getLogger("cdc_ops.source")


def chosen_reader(spark: SparkSession, spec: JobSpec, url: str) -> Reader:
    """Returns what the job reads rows with: `native` only if a task has shown that it can, and so never for a job that reads none.

    It logs which reader `auto` has become, and why.

    Args:
        spark: The application's session.
        spec: With what the pipeline wants.
        url: Of the source, with credentials; it reaches tasks by a token only.

    Raises:
        EnvironmentSetupError: the pipeline wants `native`, and tasks cannot.
    """
    wanted = spec.source.reader
    if wanted is Reader.JDBC or not any(_reads(spec.step, operation) for operation in spec.operations):
        return Reader.JDBC if wanted is Reader.AUTO else wanted
    if is_uncompiled() and str(spark.conf.get("spark.master", "") or "").startswith("local"):
        if wanted is Reader.AUTO and spec.small:
            logger.info("Rows are read over JDBC: they are few, and the native reader would have to be compiled first.")
            return Reader.JDBC
        logger.info(FIRST_TIME)
    why = _why_not(spark, spec, url)
    if not why:
        if wanted is Reader.AUTO:
            logger.info("Rows are read natively.")
        return Reader.NATIVE
    if wanted is Reader.AUTO:
        logger.info(f"Rows are read over JDBC: {why}.")
        return Reader.JDBC
    raise EnvironmentSetupError(
        "Spark's tasks cannot read the source natively, and the pipeline says 'reader: native'.",
        why=why,
        data="Nothing was read or written.",
        next="Install cdc-ops with numba and pyarrow where Spark's tasks run, on the driver's machine, or set 'reader: jdbc' or 'auto'.",
    )


def over_jdbc(source: Source, operation: Operation) -> str:
    """Returns why an operation's rows are read over JDBC though the job reads natively, "" if they are not."""
    return source.jdbc_read(operation.read_schema, operation.slices).over_jdbc if operation.slices else ""


def _reads(step: Step, operation: Operation) -> bool:
    """True if a step reads rows of the source. A merge also does where landed rows are damaged; that is not worth a look."""
    return bool(operation.slices) and not (step is Step.MERGE and operation.apply.landing is Landing.STAGED)


def _why_not(spark: SparkSession, spec: JobSpec, url: str) -> str:
    master = str(spark.conf.get("spark.master", "") or "")
    if not master.startswith("local"):  # one task that can does not show that those on other machines can
        return f"Spark's tasks run on a cluster ({master}), and the native reader needs them on the driver's machine"
    return why_not_native(spark, url)
