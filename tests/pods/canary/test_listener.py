"""The listener that stands in for a server, as a process."""

import urllib.request

from tests.pods.canary.listening import listening
from tests.support.waiting import HANGS_AFTER_SECONDS


def test_every_request_is_answered() -> None:
    with listening() as (_, url):
        for path in ("/", "/health"):
            with urllib.request.urlopen(f"{url}{path}", timeout=HANGS_AFTER_SECONDS) as answer:
                assert answer.status == 200


def test_it_ends_by_itself_without_failing() -> None:
    with listening("--seconds", "0.01") as (process, _):
        assert process.wait(HANGS_AFTER_SECONDS) == 0


def test_it_ends_at_sigterm() -> None:
    with listening() as (process, _):
        process.terminate()
        assert process.wait(HANGS_AFTER_SECONDS) == 143
