"""The fast lane of the log method: what is plain in archived events is decoded by kernels in Python workers, and folded there.

lane      in the driver: which operations can, one Spark job that reads their files, the feed and the fold of what came out
scan      in an executor: one file -> rows by the hash of their key (Parquet), lines that are not plain (Parquet), what was seen
fold      in an executor: all rows of some keys -> the last of each
probe     whether the executors' Python can
"""
