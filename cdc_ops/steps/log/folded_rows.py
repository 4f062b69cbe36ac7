"""extract of the log method, its end: what was read is folded, and what it comes to is landed. Runs in Spark.

Where workers fold all of it, they write the landed files too, and the rows never reach the JVM. What they cannot write Spark lands.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F

from cdc_ops.core.apply.deletes import DELETE_MARK
from cdc_ops.core.operation.log_batch import PRESENT
from cdc_ops.core.operation.operation import Operation
from cdc_ops.core.operation.results import Manifest
from cdc_ops.formats.feed.fold import TIED, place_of, refuse_ties
from cdc_ops.lake.data_files.task_files import codec_of
from cdc_ops.lake.file_io import make_folder, open_filesystem
from cdc_ops.lake.staging.landing import declare_landed, land, landing_folder
from cdc_ops.lake.staging.manifests import landed_files
from cdc_ops.steps.log.plain.buckets import LandedBucket
from cdc_ops.steps.log.plain.lane import PlainEvents
from cdc_ops.steps.log.plain.lanes import LandedLanes
from cdc_ops.steps.stage.folded_events import landed_rows


@dataclass(frozen=True, slots=True)
class FoldedCounts:
    """What landed rows are: those of which not every column is known, and those that are gone."""

    partial: int
    deletes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """How the events of an operation are folded and landed.

    Args:
        truncated: False if there is no TRUNCATE among them.
        partial: False if each update is known to speak of all columns.
        check: See `lake.staging.landing.land`.
        finish: Puts into the manifest what else is to be said.
        say: Receives a line if Spark lands rows that workers were to land.
    """

    truncated: bool
    partial: bool
    check: Callable[[], None]
    finish: Callable[[Manifest, FoldedCounts], Manifest]
    say: Callable[[str], None]


def land_folded(spark: SparkSession, operation: Operation, attempt: str, lanes: LandedLanes, folding: Folding) -> Manifest:
    """Folds what was read of an operation's files and lands it: an action.

    Raises:
        TiedEventsError: two events at one place say different things.
        CdcError: what the check raises.
    """
    plain, landed = lanes.workers_alone, None
    if plain:
        try:
            landed = _landed_by_workers(spark, operation, attempt, lanes, plain)
        except _NotLandedError as error:
            folding.say(f"{operation.table}: Spark lands what the events come to, because the decoder's workers could not: {error}")
    if landed is None:
        return _landed_by_spark(spark, operation, attempt, lanes, folding)
    if any(bucket.tied for bucket in landed):
        folding.check()
        refuse_ties(lanes.folded(truncated=False, partial=False), operation.full_schema)
    counts = FoldedCounts(partial=0, deletes=sum(bucket.deletes for bucket in landed))
    return declare_landed(spark, operation, attempt, folding.check, lambda manifest: folding.finish(manifest, counts))


def _landed_by_spark(spark: SparkSession, operation: Operation, attempt: str, lanes: LandedLanes, folding: Folding) -> Manifest:
    folded = lanes.folded(truncated=folding.truncated, partial=folding.partial)
    tied, landed = Observation(), Observation()
    rows = landed_rows(folded.observe(tied, F.count_if(TIED).alias("n")), operation, place_of(folded))
    partial, deletes = F.count_if(F.col(PRESENT).isNotNull()).alias("partial"), F.count_if(F.col(DELETE_MARK)).alias("deletes")

    def finished(manifest: Manifest) -> Manifest:
        if tied.get["n"]:
            refuse_ties(folded, operation.full_schema)
        return folding.finish(manifest, FoldedCounts(partial=landed.get["partial"], deletes=landed.get["deletes"]))

    return land(spark, rows.observe(landed, partial, deletes), operation, attempt, folding.check, finished)


class _NotLandedError(Exception):
    """Workers could not land the rows; the text says why."""


def _landed_by_workers(
    spark: SparkSession, operation: Operation, attempt: str, lanes: LandedLanes, plain: PlainEvents
) -> list[LandedBucket]:
    """Has workers fold and land all rows.

    A task that ran twice has left a file that no answer names: it is removed, and one that comes later is no file of the manifest's.

    Raises:
        _NotLandedError: one could not, or wrote what this process does not see.
    """
    folder, codec = landing_folder(operation, attempt), codec_of(spark)
    if codec is None:
        raise _NotLandedError("they do not know the session's compression of Parquet")
    make_folder(folder)
    answers = plain.land(lanes.merged, folder, codec)
    if failure := next((answer.failure for answer in answers if answer.failure), ""):
        raise _NotLandedError(failure)
    written = {answer.file.name: answer.file.size for answer in answers if answer.file}
    filesystem, _ = open_filesystem(folder)
    for file in landed_files(operation.target.staging, attempt):
        if written.pop(file.path.rpartition("/")[2], None) != file.bytes:
            filesystem.rm_file(file.path)
    if written:
        raise _NotLandedError(f"{next(iter(written))} cannot be seen in {folder}")
    return answers
