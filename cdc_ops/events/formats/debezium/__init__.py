"""Debezium: events and flat records of its connectors, as JSON and from Avro.

specs          what the formats declare (`declared`), and the configuration of the connectors
records        opens the formats
events, flat   the formats; of MongoDB, those in `mongodb`
layout         members of events
schemas        how the values of a record are written, if it says so
positions      places in the logs of servers
images         rows without the values that did not change
values         texts -> stored values
"""
