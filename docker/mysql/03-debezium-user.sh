#!/bin/bash
# The login of Debezium's connector (profile 'events'): it reads the binlog, and no row by query. Sourced, as 02-cdc-user.sh is.
docker_process_sql --database=mysql <<SQL
CREATE USER 'debezium'@'%' IDENTIFIED BY '$(cat /run/secrets/mysql_debezium_password)';
GRANT SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'debezium'@'%';
SQL
