"""One statement that makes an operation true, and all that is put into it."""
