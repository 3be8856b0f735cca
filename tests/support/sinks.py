"""A sink (a place for a run's files) that refuses some of the files on purpose."""

from pathlib import Path

from draftworth.measuring.result_files import FolderSink, SinkError


class RefusingSink(FolderSink):
    """Raises SinkError for files whose name ends with one of `refused`, and writes all others.

    written: the names of the files that were written, in order.
    """

    def __init__(self, folder: Path, *refused: str) -> None:
        super().__init__(folder)
        self.refused = refused
        self.written: list[str] = []

    def write(self, name: str, data: bytes) -> None:
        if name.endswith(self.refused):
            raise SinkError(f"{name}: refused")
        super().write(name, data)
        self.written.append(name)

    @property
    def written_in_run(self) -> list[str]:
        """The names in `written`, without the run's folder."""
        return [name.partition("/")[2] for name in self.written]
