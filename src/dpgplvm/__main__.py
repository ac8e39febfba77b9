"""The command line as `python -m dpgplvm`."""

import sys

from dpgplvm.commands import main

if __name__ == "__main__":
    sys.exit(main())
