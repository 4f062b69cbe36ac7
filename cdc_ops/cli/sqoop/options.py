"""The options of Sqoop's import tools: which take a value, which are secrets, and why some have no place in a pipeline file.

Facts: Sqoop 1.4.7's user guide, and `BaseSqoopTool`, `ImportTool` and `SqoopOptions` in its source.
"""

import re
from dataclasses import dataclass
from typing import Final

SHORT: Final = {"m": "num-mappers", "e": "query", "z": "compress", "P": "P", "D": "D"}
"""Options of one letter, by the long name that means the same."""

SECRET: Final = frozenset(
    ("password", "P", "password-file", "password-alias", "hs2-password", "hs2-keytab", "accumulo-password", "meta-password", "D")
)
"""Their values are forgotten while they are read. `-D` sets Hadoop properties, some of which are passwords."""

CARRIED: Final = frozenset(
    (
        *("connect", "username", "table", "query", "columns", "where", "incremental", "check-column", "last-value", "split-by"),
        *("num-mappers", "merge-key", "target-dir", "warehouse-dir", "exclude-tables", "append", "hive-table", "hive-database"),
    )
)
"""Options that the translation looks at itself; each takes a value but `append`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Options that are left out for one reason.

    Args:
        switches: Options without a value.
        valued: Options with one.
        why: One sentence or two.
        differs: Whether the result is something else than with Sqoop, so that somebody has to look at it.
    """

    switches: str = ""
    valued: str = ""
    why: str
    differs: bool = False


_GROUPS: Final = (
    _Group(
        valued="password password-file password-alias D",
        switches="P",
        why="Secrets are never written. They belong to the connection, whose URL is set outside the file.",
    ),
    _Group(
        switches="as-avrodatafile as-sequencefile as-textfile as-parquetfile as-binaryfile compress",
        valued="compression-codec parquet-configurator-implementation",
        why="A Delta table is compressed Parquet.",
    ),
    _Group(
        valued="fields-terminated-by lines-terminated-by optionally-enclosed-by enclosed-by escaped-by input-fields-terminated-by"
        " input-lines-terminated-by input-optionally-enclosed-by input-enclosed-by input-escaped-by null-string null-non-string"
        " input-null-string input-null-non-string",
        switches="mysql-delimiters",
        why="A Delta table holds typed values, and NULL as NULL: nothing is delimited or escaped.",
    ),
    _Group(
        valued="hive-delims-replacement",
        switches="hive-drop-import-delims",
        why="Text is stored as it is, with its line breaks.",
        differs=True,
    ),
    _Group(
        valued="map-column-java map-column-hive",
        why="Types follow the columns at the source, exactly (docs/types.md). Readers that need another type cast the column.",
        differs=True,
    ),
    _Group(
        valued="external-table-dir hive-home hs2-url hs2-user hs2-password hs2-keytab",
        switches="hive-import create-hive-table hive-overwrite",
        why="Names in a metastore come from 'target: {catalog: ...}', for one table from 'catalog_name'; see docs/catalog.md.",
        differs=True,
    ),
    _Group(
        valued="hive-partition-key hive-partition-value",
        why="A partition with a fixed value is a folder for each import. 'partition_by' takes a column of the table.",
        differs=True,
    ),
    _Group(
        valued="hcatalog-table hcatalog-database hcatalog-home hcatalog-partition-keys hcatalog-partition-values hcatalog-storage-stanza"
        " hbase-table column-family hbase-row-key hbase-null-incremental-mode accumulo-table accumulo-column-family accumulo-row-key"
        " accumulo-visibility accumulo-batch-size accumulo-max-latency accumulo-zookeepers accumulo-instance accumulo-user"
        " accumulo-password",
        switches="hcatalog-external-table create-hcatalog-table drop-and-create-hcatalog-table hbase-create-table hbase-bulkload"
        " accumulo-create-table",
        why="cdc-ops writes Delta tables, and nothing to HCatalog, HBase or Accumulo.",
        differs=True,
    ),
    _Group(
        switches="delete-target-dir",
        why="A table is not emptied before a run. 'cdc-ops resync --mode full' reads all of it again.",
    ),
    _Group(
        valued="validator validation-threshold validation-failurehandler",
        switches="validate",
        why="'cdc-ops verify' compares source and lake row by row, of tables with a cursor too.",
    ),
    _Group(
        valued="direct-split-size fetch-size inline-lob-limit boundary-query split-limit metadata-transaction-isolation-level",
        switches="direct batch relaxed-isolation autoreset-to-one-mapper",
        why="cdc-ops plans its own reads ('parallelism', 'chunk_rows').",
    ),
    _Group(
        valued="driver connection-manager",
        why="cdc-ops brings its JDBC drivers ('jdbc_driver' chooses between those of MySQL and MariaDB).",
    ),
    _Group(
        valued="connection-param-file",
        why="Options of a connection stand in its URL (docs/configuration.md#connections).",
        differs=True,
    ),
    _Group(
        valued="outdir bindir package-name class-name jar-file mapreduce-job-name hadoop-home hadoop-mapred-home temporary-rootdir"
        " escape-mapping-column-names meta-connect meta-username meta-password",
        switches="delete-compile-dir skip-dist-cache throw-on-error oracle-escaping-disabled verbose help",
        why="There is no generated class and no MapReduce job.",
    ),
)

SWITCHES: Final = frozenset(name for group in _GROUPS for name in group.switches.split()) | {"append"}
LEFT_OUT: Final = {name: group.why for group in _GROUPS for name in (*group.switches.split(), *group.valued.split())}
"""By option, why it is left out."""
DIFFERING: Final = frozenset(name for group in _GROUPS if group.differs for name in (*group.switches.split(), *group.valued.split()))
"""Options that are left out although the result is something else without them."""
KNOWN: Final = CARRIED | LEFT_OUT.keys()


_LOGIN: Final = re.compile(r"(s3[an]?://)[^@/]*:.*@|([a-z0-9]+://)[^@/]*:[^@/]*@", re.IGNORECASE)
"""Keys of an object store in its URI. A secret key may have slashes; `abfss://container@account` has no login."""


def kept(name: str, value: str) -> str:
    """Returns what of an option's value may be shown.

    >>> kept("password", "hunter2"), kept("target-dir", "s3n://KEY:SECRET@lake/raw"), kept("table", "orders")
    ('', 's3n://lake/raw', 'orders')
    """
    if name in SECRET or name in SWITCHES:
        return ""
    return _LOGIN.sub(r"\1\2", value, count=1) if name in ("target-dir", "warehouse-dir") else value


def written(name: str) -> str:
    """Returns an option as it stands on a command line.

    >>> written("table"), written("P")
    ('--table', '-P')
    """
    return f"-{name}" if len(name) == 1 else f"--{name}"
