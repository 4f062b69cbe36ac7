"""Source against lake in Spark: what differs is brought over."""
