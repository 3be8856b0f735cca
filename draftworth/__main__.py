"""Runs the command line for `python -m draftworth`."""

import sys

try:
    from draftworth.cli import main
except ImportError as error:
    sys.stderr.write(
        f"draftworth: {error}: this is {sys.executable} (Python {sys.version.split()[0]}); next: "
        "activate a virtual environment of Python 3.11 or later, and in it "
        "`pip install -r requirements.txt`; `make setup` does both\n"
    )
    sys.exit(2)

sys.exit(main(sys.argv[1:]))
