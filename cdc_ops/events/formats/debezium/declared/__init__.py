"""What Debezium's formats declare: order and marks of their events, settings that lose data, the connectors' settings. Pure."""
