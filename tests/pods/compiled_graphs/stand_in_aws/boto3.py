"""Replaces boto3, whose import is slow: objects are files below the folder in `OBJECTS`."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from draftworth.safe_writing import write_file

sys.modules["botocore"] = sys.modules["botocore.config"] = SimpleNamespace(Config=dict)  # type: ignore[assignment]


def client(*_: str, **__: Any) -> SimpleNamespace:
    return SimpleNamespace(put_object=_put_object)


def _put_object(*, Bucket: str, Key: str, Body: bytes, **_: str) -> None:  # noqa: N803
    path = Path(os.environ["OBJECTS"], Bucket, Key)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, Body)
