"""Where tests keep archives, staging areas and lakes: in local folders, or with `CDC_OPS_TEST_STORE=s3` on an S3 endpoint on loopback.

What a test writes or looks at by hand goes through `place`: the same code then runs on both. What is about a local file system itself, or
starts servers that know nothing of the endpoint, has the mark `local_store` and is left out on S3.
"""

import os
from pathlib import Path
from typing import Any, Final

from upath import UPath

ON_S3: Final = os.environ.get("CDC_OPS_TEST_STORE", "local") == "s3"
BUCKET: Final = "archive"


def place(folder: Path | str) -> Any:
    """Returns the folder of the chosen store that stands for a local one; it can what a `Path` can."""
    return at(f"s3a://{BUCKET}{folder}" if ON_S3 else str(folder))


def at(url: str) -> Any:
    """Returns what is there now at a path or URL, as a `Path`: of S3 nothing that was listed before is taken for true."""
    return UPath(url, use_listings_cache=False) if "://" in url else Path(url)
