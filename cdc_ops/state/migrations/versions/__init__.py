"""One module a migration. Each may be cut off anywhere on MySQL, which commits every statement by itself: check before you create."""
