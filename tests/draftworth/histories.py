"""Runs before and after a change of the servers, with hardly any noise."""

from collections.abc import Callable
from dataclasses import replace

from benchmarks.gate_histories import History
from draftworth.records.results import RequestRecord
from draftworth.records.run_folder import Run
from tests.support.blocks import each_request

STEADY = History(change=1.0, before=4, rounds=2, between=0.001, block_error=0.001, by_prompt=0.001)


def changed(run: Run, change: Callable[[RequestRecord], RequestRecord]) -> Run:
    return replace(run, blocks=tuple(each_request(block, change) for block in run.blocks))
