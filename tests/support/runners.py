"""Makes the runners that measure runs; each test states only the values that it needs."""

from typing import Any

from draftworth.measuring.journal import History
from draftworth.measuring.result_files import Sink
from draftworth.measuring.run_specification import RunSpec
from draftworth.measuring.runner import Runner
from draftworth.measuring.server_lifecycle import Environment


def make_runner(
    spec: RunSpec,
    sink: Sink,
    *,
    run_id: str = "test-1",
    history: History | None = None,
    **environment: Any,
) -> Runner:
    """Return a runner that reports no progress and checks often whether its servers are ready.

    history: the files of an unfinished run, which the runner continues; None: it begins a new run.
    environment: values of `Environment` that replace the defaults.
    """
    fields: dict[str, Any] = {
        "progress": lambda line: None,
        "scheduling": "ordinary",
        "ready_poll_seconds": 0.01,
    }
    made = Environment(**{**fields, **environment})
    return Runner(spec, sink, run_id, made, history)
