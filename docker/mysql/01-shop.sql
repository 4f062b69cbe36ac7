-- The source of the example pipeline: every table has a primary key and an indexed cursor that the database itself sets.
CREATE DATABASE IF NOT EXISTS shop CHARACTER SET utf8mb4;
USE shop;

CREATE TABLE customers (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(100) NOT NULL,
  email VARCHAR(200) NOT NULL,
  updated_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  KEY (updated_at, id)
);

CREATE TABLE orders (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  customer_id BIGINT UNSIGNED NOT NULL,
  status ENUM('new', 'paid', 'shipped', 'delivered', 'returned') NOT NULL DEFAULT 'new',
  total DECIMAL(12, 2) NOT NULL,
  details JSON NOT NULL,
  created_at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP,
  updated_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
  KEY (updated_at, id)
);

INSERT INTO customers (name, email) VALUES
  ('Robert', 'robert@example.com'), ('Lee', 'lee@example.com'), ('Zoë', 'zoe@example.com');
INSERT INTO orders (customer_id, status, total, details) VALUES
  (1, 'paid', 323.00, '{"items": 2}'), (2, 'new', 500.00, '{"items": 1}'), (1, 'shipped', 136.00, '{"items": 7}'), (3, 'new', 211.00, '{}');
