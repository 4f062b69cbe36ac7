"""Checks for commands about a pipeline that no file has any more."""

from typing import TYPE_CHECKING

from cdc_ops.core.text import did_you_mean
from cdc_ops.errors import RequestError

if TYPE_CHECKING:
    from pathlib import Path

    from cdc_ops.state.base import StateReader


def check_is_gone(pipeline: str, folder: "Path", done: str, instead: str) -> None:
    """Makes sure that no file has a pipeline.

    Args:
        pipeline: Its name.
        folder: The pipeline files.
        done: What is to be done to it, such as "forgotten".
        instead: What to do while there is such a file.

    Raises:
        ConfigError: a file of the folder is wrong, so nobody knows whose it is.
        RequestError: a file has it.
    """
    from cdc_ops.config.loading import load_pipelines

    if origin := next((one.origin for one in load_pipelines(folder) if one.name == pipeline), ""):
        raise RequestError(
            f"Pipeline {pipeline} cannot be {done}: {origin} has it.",
            why="Its next run would find its tables in the lake and know nothing of them.",
            data="Nothing was changed.",
            next=instead.format(origin=origin),
        )


def check_is_known(reader: "StateReader", pipeline: str) -> None:
    """Makes sure that the ledger knows a pipeline.

    Raises:
        RequestError: it does not.
    """
    known = reader.pipelines()
    if pipeline not in known:
        raise RequestError(
            f"The ledger knows no pipeline {pipeline!r}.",
            why=did_you_mean(pipeline, known),
            data="Nothing was changed.",
            next="'cdc-ops status' shows the pipelines.",
        )
