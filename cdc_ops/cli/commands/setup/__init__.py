"""Commands on the way to a first run: a pipeline file is written, the formats are shown, and what a run needs is tried."""
