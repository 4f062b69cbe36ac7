"""The demo's source: a MariaDB server with the example `sales` and 200,000 `orders`; before the data path."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cdc_ops.core.pipeline.connections import ConnectionUrl
from cdc_ops.demo.layout import DATABASE
from cdc_ops.dev.databases.mariadb import MariaDBServer

ORDERS: Final = 200_000
DAYS: Final = 14
"""The number of days, up to now, over which the orders' changes are spread."""

SALES_TABLE: Final = """
CREATE TABLE sales (
  id BIGINT,
  date DATE,
  name VARCHAR(32),
  sales DOUBLE,
  modified DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  KEY (modified)
)"""

SALES_ROWS: Final = """
INSERT INTO sales VALUES
  (1, '2019-11-11', 'Robert', 323.00, '2019-11-11 12:00:05'),
  (2, '2019-11-11', 'Lee', 500.00, '2019-11-11 16:11:46'),
  (3, '2019-11-12', 'Robert', 136.00, '2019-11-12 10:23:54'),
  (4, '2019-11-13', 'Lee', 211.00, '2019-11-13 11:33:27')"""

SALES_CHANGES: Final = (
    "DELETE FROM sales WHERE id = 1",
    "UPDATE sales SET sales = 150 WHERE id = 2",
    "UPDATE sales SET sales = 175 WHERE id = 2",
    "INSERT INTO sales (id, date, name, sales) VALUES (5, '2019-11-14', 'Robert', 233)",
)

ORDERS_TABLE: Final = """
CREATE TABLE orders (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id INT UNSIGNED NOT NULL,
  status ENUM('new', 'paid', 'shipped', 'delivered', 'returned') NOT NULL DEFAULT 'new',
  total DECIMAL(12, 2) NOT NULL,
  currency CHAR(3) NOT NULL DEFAULT 'EUR',
  express TINYINT NOT NULL DEFAULT 0,
  note VARCHAR(200),
  details JSON NOT NULL,
  ordered_on DATE NOT NULL,
  created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
  updated_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  KEY (updated_at, id)
)"""

# Numbers that look random and are the same each time. The last change is a minute ago, so that it is below the safe bound.
ORDERS_ROWS: Final = f"""
INSERT INTO orders (customer_id, status, total, currency, express, note, details, ordered_on, created_at, updated_at)
SELECT 1 + CRC32(seq) % 20000,
       ELT(1 + CRC32(CONCAT('s', seq)) % 5, 'new', 'paid', 'shipped', 'delivered', 'returned'),
       5 + CRC32(CONCAT('t', seq)) % 50000 / 100,
       ELT(1 + seq % 3, 'EUR', 'USD', 'GBP'),
       seq % 10 = 0,
       IF(seq % 4 = 0, CONCAT('ring twice, parcel ', seq, ', Grüße 🎁'), NULL),
       CONCAT('{{"items": ', 1 + seq % 7, ', "sku": "', SUBSTR(MD5(seq), 1, 8), '", "gift": ', IF(seq % 9 = 0, 'true', 'false'), '}}'),
       DATE(@first + INTERVAL seq * @step MICROSECOND),
       @first + INTERVAL seq * @step MICROSECOND,
       @first + INTERVAL seq * @step + CRC32(CONCAT('u', seq)) % 30000000 MICROSECOND
FROM seq_1_to_{ORDERS}"""


PAYMENTS: Final = 5_000

PAYMENTS_TABLE: Final = """
CREATE TABLE payments (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  order_id BIGINT UNSIGNED NOT NULL,
  amount DECIMAL(12, 2) NOT NULL,
  method ENUM('card', 'invoice', 'voucher') NOT NULL,
  note VARCHAR(200),
  paid_at DATETIME(6) NOT NULL
)"""

PAYMENTS_ROWS: Final = f"""
INSERT INTO payments (order_id, amount, method, note, paid_at)
SELECT 1 + CRC32(seq) % 200000, 5 + CRC32(CONCAT('p', seq)) % 50000 / 100, ELT(1 + seq % 3, 'card', 'invoice', 'voucher'),
       IF(seq % 5 = 0, CONCAT('Grüße 🎁 ', seq), NULL), NOW(6) - INTERVAL seq SECOND
FROM seq_1_to_{PAYMENTS}"""

PAYMENTS_CHANGES: Final = (
    ("UPDATE payments SET amount = amount + 1 WHERE id <= 500", "500 amounts corrected"),
    ("DELETE FROM payments WHERE id BETWEEN 1001 AND 1100", "100 payments deleted"),
    ("UPDATE payments SET id = 9000001, note = 'under a new key' WHERE id = 7", "one payment has a new key"),
    (
        "REPLACE INTO payments VALUES (8, 1, 8.88, 'voucher', NULL, NOW(6)), (9000002, 2, 9.99, 'card', 'new', NOW(6))",
        "one replaced, one inserted",
    ),
)

ORDERS_CHANGES: Final = (
    ("UPDATE orders SET note = 'corrected', updated_at = updated_at WHERE id <= 1000", "1,000 corrected, keeping their updated_at"),
    ("DELETE FROM orders WHERE id BETWEEN 5001 AND 5500", "500 in a row deleted"),
    ("UPDATE orders SET id = 9000001 WHERE id = (SELECT MIN(id) FROM orders)", "one order has a new key"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChange:
    """A change to the source, with the text for the report."""

    table: str
    text: str


def source_url(server: MariaDBServer) -> str:
    """Returns the shop's URL for cdc-ops outside Airflow, with the password."""
    return ConnectionUrl.from_parts("mysql", server.host, server.port, server.user, server.password, DATABASE).render()


def fill(server: MariaDBServer, say: Callable[[str], None]) -> None:
    """Creates the database with both tables as they are before the first run."""
    server.create_database(DATABASE)
    server.execute(SALES_TABLE, SALES_ROWS, database=DATABASE)
    say(f"shop.sales: 4 rows; filling shop.orders with {ORDERS:,} rows")
    _fill_orders(server)


def _fill_orders(server: MariaDBServer) -> None:
    server.execute(
        ORDERS_TABLE,
        f"SET @first = NOW(6) - INTERVAL 1 MINUTE - INTERVAL {DAYS} DAY, @step = {DAYS * 86_400_000_000 // ORDERS}",
        ORDERS_ROWS,
        "ANALYZE TABLE orders",
        database=DATABASE,
    )


def fill_for_archives(server: MariaDBServer, say: Callable[[str], None]) -> None:
    """Creates the database with `payments`, which Debezium reads, and `orders`, whose changes come from the binlogs.

    No column of `payments` shows when a row was changed.
    """
    server.create_database(DATABASE)
    say(f"shop.payments: {PAYMENTS:,} rows; filling shop.orders with {ORDERS:,} rows")
    _fill_orders(server)
    server.execute("FLUSH BINARY LOGS")  # these rows are history: the binlog that the shop works with is a small one
    server.execute(PAYMENTS_TABLE, PAYMENTS_ROWS, "ANALYZE TABLE payments", database=DATABASE)


def change_payments(server: MariaDBServer) -> tuple[SourceChange, ...]:
    """Makes changes of all kinds, one transaction each; a cursor would find few of them."""
    server.execute(*(statement for statement, _ in PAYMENTS_CHANGES), database=DATABASE)
    return tuple(SourceChange(table="shop.payments", text=text) for _, text in PAYMENTS_CHANGES)


def change_orders(server: MariaDBServer) -> tuple[SourceChange, ...]:
    """Makes changes that no cursor finds, beside those of the writer."""
    server.execute(*(statement for statement, _ in ORDERS_CHANGES), database=DATABASE)
    return tuple(SourceChange(table="shop.orders", text=text) for _, text in ORDERS_CHANGES)


def change_sales(server: MariaDBServer) -> tuple[SourceChange, ...]:
    """Makes the changes of the example `sales`, one transaction each."""
    server.execute(*SALES_CHANGES, database=DATABASE)
    return (SourceChange(table="shop.sales", text="deleted id 1, updated id 2 twice (150, then 175), inserted id 5"),)


def change_silently(server: MariaDBServer, since: str, until: str) -> tuple[SourceChange, ...]:
    """Changes orders without a change of `updated_at`, as some bulk corrections do: an increment does not find them.

    Args:
        server: The source.
        since: Start of the range of `updated_at`, UTC, as SQL text.
        until: End of the range, exclusive.
    """
    where = f"updated_at >= '{since}' AND updated_at < '{until}'"
    server.execute(
        f"UPDATE orders SET note = 'price corrected', total = total + 1, updated_at = updated_at WHERE {where}", database=DATABASE
    )
    count = server.execute(f"SELECT COUNT(*) FROM orders WHERE {where} AND note = 'price corrected'", database=DATABASE)[0][0]
    return (SourceChange(table="shop.orders", text=f"corrected {count:,} rows of {since} .. {until}, keeping their updated_at"),)


def let_bound_pass(server: MariaDBServer) -> None:
    """Waits until the source's clock is past the second of the last change, so that the next window includes it."""
    server.execute("DO SLEEP(1 - MICROSECOND(NOW(6)) / 1000000)")
