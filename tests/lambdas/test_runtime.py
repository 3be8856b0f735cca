import json

import pytest

from lambdas.runtime import log_line


def test_a_log_entry_is_one_json_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    entry = {"bucket": "\ud800", "reason": "two\nlines"}
    log_line(entry)
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == entry
