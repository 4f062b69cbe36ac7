"""Makes the buckets that are named, unless they are there: python make_buckets.py lake archive. AWS's variables say where."""

import sys

from s3fs import S3FileSystem

store = S3FileSystem()
for bucket in sys.argv[1:]:
    if not store.exists(bucket):
        store.mkdir(bucket)
print("buckets:", ", ".join(sorted(store.ls(""))))
