"""The names of a listing's files, by the layout of the archive: what they say, and which of them say nothing."""

from cdc_ops.archives.base import Listing
from cdc_ops.core.archive.file_names import FileName, IgnoredFile, UnrecognizedFile, parse_name
from cdc_ops.core.pipeline.archive_config import ArchiveConfig, OnUnrecognizedFile
from cdc_ops.errors import ArchiveFileError


def parsed_names(rules: ArchiveConfig, listing: Listing) -> tuple[tuple[FileName, ...], tuple[UnrecognizedFile, ...]]:
    """Returns what the names say of files that hold changes, and the files that the layout does not know.

    Raises:
        ArchiveFileError: there are such, and the rules do not say to leave them alone.
    """
    names: list[FileName] = []
    unrecognized_files: list[UnrecognizedFile] = []
    for file in listing.files:
        match parse_name(rules.files.layout, file.path, rules.files.template):
            case UnrecognizedFile() as unrecognized:
                unrecognized_files.append(unrecognized)
            case IgnoredFile():
                pass
            case name:
                names.append(name)
    if unrecognized_files and rules.files.unrecognized_files is OnUnrecognizedFile.FAIL:
        shown = "; ".join(f"{item.path}: {item.why}" for item in unrecognized_files[:5])
        layout = rules.files.layout.value
        raise ArchiveFileError(
            f"{len(unrecognized_files)} files of the archive have names that the layout {layout!r} does not know: {shown}.",
            why="They may hold changes, and nobody can say where these belong.",
            data="Nothing was read; the watermark is where it was.",
            next="Correct the layout or move the files away; or let such files be ignored.",
        )
    return tuple(names), tuple(unrecognized_files)
