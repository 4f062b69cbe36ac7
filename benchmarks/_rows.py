"""The rows that are moved: twelve columns of the common types, the same each time, made by the server itself."""

COLUMNS = (
    "id",
    "customer_id",
    "status",
    "total",
    "currency",
    "quantity",
    "weight",
    "note",
    "express",
    "ordered_on",
    "created_at",
    "updated_at",
)

CREATE = """
CREATE TABLE {table} (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id INT NOT NULL,
  status VARCHAR(12) NOT NULL,
  total DECIMAL(12, 2) NOT NULL,
  currency CHAR(3) NOT NULL,
  quantity SMALLINT NOT NULL,
  weight DOUBLE NOT NULL,
  note VARCHAR(80),
  express TINYINT NOT NULL,
  ordered_on DATE NOT NULL,
  created_at DATETIME NOT NULL,
  updated_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  KEY (updated_at, id)
)"""

FILL = """
INSERT INTO {table}
SELECT seq,
       CRC32(seq) % 200000,
       ELT(1 + seq % 5, 'new', 'paid', 'shipped', 'delivered', 'returned'),
       5 + CRC32(seq + 1) % 50000 / 100,
       ELT(1 + seq % 3, 'EUR', 'USD', 'GBP'),
       seq % 100,
       (seq % 4000) / 8,
       IF(seq % 4 = 0, NULL, CONCAT('parcel ', seq, ', ring twice, leave at the Tür: ', CRC32(seq))),
       seq % 10 = 0,
       '2026-01-01' + INTERVAL seq % 200 DAY,
       '2026-01-01' + INTERVAL seq SECOND,
       '2026-01-01' + INTERVAL seq * 4000001 MICROSECOND
FROM {numbers}"""

# The same columns with the same values, but for those that come of a hash: Postgres has no CRC32 that all versions know.
CREATE_POSTGRES = """
CREATE TABLE {table} (
  id BIGINT PRIMARY KEY,
  customer_id INT NOT NULL,
  status VARCHAR(12) NOT NULL,
  total NUMERIC(12, 2) NOT NULL,
  currency CHAR(3) NOT NULL,
  quantity SMALLINT NOT NULL,
  weight DOUBLE PRECISION NOT NULL,
  note VARCHAR(80),
  express SMALLINT NOT NULL,
  ordered_on DATE NOT NULL,
  created_at TIMESTAMP(0) NOT NULL,
  updated_at TIMESTAMP(6) NOT NULL
)"""
FILL_POSTGRES = """
INSERT INTO {table}
SELECT seq,
       hashint4(seq) & 131071,
       (ARRAY['new', 'paid', 'shipped', 'delivered', 'returned'])[1 + seq % 5],
       5 + (hashint4(seq + 1) & 65535) / 100.0,
       (ARRAY['EUR', 'USD', 'GBP'])[1 + seq % 3],
       seq % 100,
       (seq % 4000) / 8.0,
       CASE WHEN seq % 4 <> 0 THEN 'parcel ' || seq || ', ring twice, leave at the Tür: ' || (hashint4(seq)::bigint + 2147483648) END,
       (seq % 10 = 0)::int,
       DATE '2026-01-01' + seq % 200,
       TIMESTAMP '2026-01-01' + seq * INTERVAL '1 second',
       TIMESTAMP '2026-01-01' + seq * 4.000001 * INTERVAL '1 second'
FROM generate_series(1, {rows}) AS seq"""

# MariaDB has tables of numbers, MySQL has not.
NUMBERS = {
    "mariadb": "seq_1_to_{rows}",
    "mysql": "(WITH RECURSIVE n (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM n WHERE seq < {rows}) SELECT seq FROM n) numbers",
}

# The same text of a row from MariaDB and from Spark; weights are eighths, so that they have one as whole numbers.
SOURCE_TEXT = (
    "CONCAT_WS('|', id, customer_id, status, total, currency, quantity, CAST(weight * 8 AS SIGNED), IFNULL(note, '~'), express,"
    " ordered_on, created_at, updated_at)"
)
# For Postgres: it has MD5 in place of CRC32, and prints times with no more digits than they have.
SOURCE_POSTGRES = (
    "CONCAT_WS('|', id, customer_id, status, total, currency, quantity, CAST(weight * 8 AS bigint), COALESCE(note, '~'), express,"
    " ordered_on, to_char(created_at, 'YYYY-MM-DD HH24:MI:SS'), to_char(updated_at, 'YYYY-MM-DD HH24:MI:SS.US'))"
)
CHECKSUMS = {
    "mariadb": f"SUM(CRC32({SOURCE_TEXT}))",
    "mysql": f"SUM(CRC32({SOURCE_TEXT}))",
    "postgres": f"SUM(('x' || SUBSTR(MD5({SOURCE_POSTGRES}), 1, 8))::bit(32)::bigint & 4294967295)",
}
LAKE_TEXT = (
    "CONCAT_WS('|', CAST(id AS STRING), CAST(customer_id AS STRING), status, CAST(total AS STRING), currency, CAST(quantity AS STRING),"
    " CAST(CAST(weight * 8 AS BIGINT) AS STRING), COALESCE(note, '~'), CAST(CAST(express AS INT) AS STRING), CAST(ordered_on AS STRING),"
    " DATE_FORMAT(created_at, 'yyyy-MM-dd HH:mm:ss'), DATE_FORMAT(updated_at, 'yyyy-MM-dd HH:mm:ss.SSSSSS'))"
)


def lake_checksum(kind: str) -> str:
    """Returns the checksum of a Delta table with these rows, as Spark SQL."""
    if kind == "postgres":
        return f"SUM(CAST(CONV(SUBSTR(MD5(CAST({LAKE_TEXT} AS BINARY)), 1, 8), 16, 10) AS BIGINT))"
    return f"SUM(CRC32(CAST({LAKE_TEXT} AS BINARY)))"


def create(table: str, kind: str = "mariadb") -> str:
    return (CREATE_POSTGRES if kind == "postgres" else CREATE).format(table=table)


def fill(table: str, rows: int, kind: str = "mariadb") -> tuple[str, ...]:
    """Returns the statements that fill a table on a server of that kind."""
    if kind == "postgres":
        return (FILL_POSTGRES.format(table=table, rows=rows), f"CREATE INDEX ON {table} (updated_at, id)")
    statement = FILL.format(table=table, numbers=NUMBERS[kind].format(rows=rows))
    return (f"SET SESSION cte_max_recursion_depth = {rows}", statement) if kind == "mysql" else (statement,)
