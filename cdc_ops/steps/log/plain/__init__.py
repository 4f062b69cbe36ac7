"""The fast lane of the log method: what is plain in archived events is decoded by kernels in Python workers, and folded there.

opening      in the driver: which operations can take it, and one Spark job that reads their files
shared_lane  in the driver: the same for all tables of a folder at once
lane, lanes  in the driver: the feed and the fold of what came out, alone and together with the exact way
scans        in an executor: one file -> what is in it for each table that wants it
scan         ... of JSON lines
binlog_scan  ... of a binlog
parts, seen  ... plain rows by the hash of their key, records for the exact way (both Parquet), and what was seen
fold         in an executor: all rows of some keys -> the last of each
probe        whether the executors' Python can
"""
