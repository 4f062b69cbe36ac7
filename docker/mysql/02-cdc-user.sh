#!/bin/bash
# The login that the pipelines use: reads shop, sees who is still writing (PROCESS) and whether this is a replica (REPLICATION CLIENT).
# The server's entry point sources this file, because it is not executable, and so its function docker_process_sql is there. The password is
# not on any command line.
docker_process_sql --database=mysql <<SQL
CREATE USER 'cdc'@'%' IDENTIFIED BY '$(cat /run/secrets/mysql_cdc_password)';
GRANT SELECT ON shop.* TO 'cdc'@'%';
GRANT PROCESS, REPLICATION CLIENT ON *.* TO 'cdc'@'%';
SQL
