"""A terminal for output."""

import io


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
