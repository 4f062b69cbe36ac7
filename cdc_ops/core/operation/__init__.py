"""Operations, from the request of a run to the record in the Delta commit. Pure."""
