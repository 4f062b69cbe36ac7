"""Strict grammars of plain texts, as compiled functions: what they take is exact, what they do not take is marked."""
