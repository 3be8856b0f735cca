"""An output stream in memory that says that it is a terminal."""

import io


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True
