"""Archives by the scheme of their URL."""

from collections.abc import Mapping
from typing import Any

from cdc_ops.archives.base import Archive
from cdc_ops.core.pipeline.archive_config import store_options
from cdc_ops.core.pipeline.extras import missing_package
from cdc_ops.errors import ConfigError


def open_archive(url: str, options: Mapping[str, Any] | None = None) -> Archive:
    """Opens an archive; nothing is connected to yet.

    Args:
        url: A folder, or `s3://bucket/prefix`, `oss://…`, `abfs://…`, `gs://…`: whatever fsspec has a package for.
        options: For fsspec's file system, e.g. `endpoint_url`; see `store_options`. Credentials come from the store's own chain
            (environment, profile, role): never from a pipeline's file.

    Raises:
        ConfigError: the URL cannot be meant.
        EnvironmentSetupError: the package for this kind of store is not installed.
    """
    from cdc_ops.archives.local import LocalArchive
    from cdc_ops.archives.remote import FsspecArchive, S3Archive

    scheme, is_url, rest = url.partition("://")
    if not url or (is_url and not rest):
        raise ConfigError(f"{url!r} is not the URL of an archive.", data="Nothing was read.", next="Write a folder, or s3://bucket/prefix.")
    if not is_url or scheme == "file":
        return LocalArchive((rest if is_url else url).removeprefix("file:"))
    kind = S3Archive if scheme in ("s3", "s3a") else FsspecArchive
    try:
        return kind(scheme.replace("s3a", "s3"), rest.rstrip("/"), store_options(options or {}))
    except ImportError as error:
        raise missing_package(url, str(error)) from None
    except (ValueError, TypeError) as error:  # a file system that wants more than the URL, such as a login
        raise ConfigError(
            f"{url!r} is not the URL of an archive.", why=str(error), data="Nothing was read.", next="Correct the URL."
        ) from None
