"""Debezium: events and flat records of its connectors, as JSON and from Avro.

events, flat   the formats
layout         members of events
schemas        how the values of a record are written, if it says so
positions      places in the logs of servers
images         rows without the values that did not change
values, times, documents   texts -> stored values
"""
