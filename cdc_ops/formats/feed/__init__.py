"""What all formats share: from envelopes over typed values to one row per key."""
