"""Folds change events: all rows of some keys in, the rows that are landed of them out. Vectorised over Arrow and numpy, no loop over rows.

    changed keys -> a delete and an insert      the delete only if the table applies deletes
    TRUNCATE     -> a barrier                   changes at or below its place are dropped
    duplicates   -> one                         same key, same place, same content
    ties         -> told                        same key, same place, other content
    each column  -> its last value              of the events that have it; a whole row or a delete has all columns

hashes    which bucket a key is in, so that all of its rows come to one fold
rules     what a table wants of its events, and what comes out
places    positions as numbers of one type, and their order
spoken    which columns an event speaks of
changes   rows of the canonical feed -> changes of single keys
taken     some rows of a column
equality  which values are the same
feed      the fold itself: `fold_feed`
landed    rows as they are landed
history   rows of an event history, folded by the same rules

Where the last event of a key has all columns, or deletes, it alone says all, and the ones before it are not read: so it is of nearly all
keys. `testing.folding` does the same event by event; tests compare the two.
"""

from cdc_ops.events.fold.feed import fold_feed
from cdc_ops.events.fold.hashes import bucket_of
from cdc_ops.events.fold.rules import Folded, FoldRules, Tie

__all__ = ["FoldRules", "Folded", "Tie", "bucket_of", "fold_feed"]
