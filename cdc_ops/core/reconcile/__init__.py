"""Source against lake: key buckets, canonical row text, differences. Pure."""
