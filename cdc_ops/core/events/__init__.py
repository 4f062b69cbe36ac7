"""Change events of the log method: formats, order, schema drift, history. Pure."""
