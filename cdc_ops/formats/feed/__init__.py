"""What all formats share: envelopes, typed values, and the fold to one row per key."""
