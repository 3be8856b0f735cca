"""Places for a run's files that misbehave."""

from pathlib import Path

from draftworth.measuring.result_files import FolderSink, SinkError


class RefusingSink(FolderSink):
    """A folder that takes no file whose name ends so, and remembers what it took, in order."""

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
        """The same without the run's folder."""
        return [name.partition("/")[2] for name in self.written]
