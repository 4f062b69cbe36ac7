"""What a run says of itself: phases, progress, late rows, and what has been told before. No Spark here."""
