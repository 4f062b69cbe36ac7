"""One scan of archived files for all tables that want their events: a file in, typed changes and facts out.

request  what is asked: tables, files
facts    what a file shows of a table: counts, bad records, drift, places
scan     a file -> its records -> their envelopes -> the tables they are of
tables   ... of one table: rows typed, renamed, counted, written
parts    where the rows go: changes by the bucket of their key, and the feed of what is kept besides
"""
