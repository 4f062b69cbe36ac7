"""The command line of the machine."""

import sys

from tests.torture.command import main

if __name__ == "__main__":
    sys.exit(main())
