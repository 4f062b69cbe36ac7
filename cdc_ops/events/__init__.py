"""Change events of the log method, from the bytes of archived files to rows of Arrow: plain Python, no Spark.

record     what comes in: a record with its place, and the envelope that a format makes of it
json_text  JSON with every digit kept: members of an object as the text that stands there
values     text of a value -> the stored value of a column, exactly or not at all
formats    one module a tool: what its records say
table      envelopes of one table -> rows of the canonical feed (`core.events.change_feed`)
"""
