"""JSON records in bytes: a layout finds their members, values are made of what is plain, all else is marked. Spark-free.

lines -> members.scan_members (where members lie, and what they are) -> an envelope's kernel -> values.decode_values -> cells
"""
