"""The `__main__.py` of the folder that the serving pods run.

That folder is a ConfigMap's, whose keys have no slashes: each file has the name of its module, as
in `draftworth.records.codec.py`. Nothing is put on the interpreter's path that vLLM would inherit.
"""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType


class FlatFolder:
    """Finds modules by the names of files: a finder of `sys.meta_path`."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files = frozenset(os.listdir(folder))

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None: no file has the module's name."""
        for file, below in ((f"{name}.py", None), (f"{name}.__init__.py", [self._folder])):
            if file in self._files:
                location = os.path.join(self._folder, file)
                return spec_from_file_location(name, location, submodule_search_locations=below)
        return None


if __name__ == "__main__":
    sys.meta_path.insert(0, FlatFolder(os.path.dirname(os.path.abspath(__file__))))
    runpy.run_module("pods.compiled_graphs", run_name="__main__", alter_sys=True)
