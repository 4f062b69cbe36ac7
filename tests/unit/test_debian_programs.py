"""Where programs from Debian's unstable release come from: the pure part."""

from cdc_ops.dev.databases.debian import mirror_of

INDEXES = """http://mirror.example/debian-security/ bookworm-security main
http://mirror.example/debian/ bookworm-updates main
http://mirror.example/debian/ bookworm contrib
http://mirror.example/debian/ bookworm main
http://other.example/debian/ bookworm main
"""


def test_the_mirror_is_that_of_the_machines_own_release() -> None:
    assert mirror_of(INDEXES, "bookworm") == "http://mirror.example/debian/"


def test_a_machine_whose_release_has_no_mirror_gives_none() -> None:
    assert mirror_of(INDEXES, "trixie") is None
    assert mirror_of("", "bookworm") is None
