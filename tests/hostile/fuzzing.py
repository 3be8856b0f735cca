"""How much is tried, and what each try may cost."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager

import hypothesis
from hypothesis import strategies as st

# Set by `make fuzz`; read when tests are collected.
FUZZING = bool(os.environ.get("DRAFTWORTH_FUZZ"))
MAX_CPU_SECONDS = 2.0
MAX_MIB = 300.0
_KIB_PER_MIB = 1024


def tries(quick: int, full: int) -> hypothesis.settings:
    """`full` tries in `make fuzz`, `quick` ones in `make test`; the same ones each time."""
    return hypothesis.settings(
        max_examples=full if FUZZING else quick,
        derandomize=True,
        database=None,
        suppress_health_check=[
            hypothesis.HealthCheck.too_slow,
            hypothesis.HealthCheck.function_scoped_fixture,
            hypothesis.HealthCheck.data_too_large,
            hypothesis.HealthCheck.filter_too_much,
        ],
    )


@contextmanager
def bounded(*, cpu_seconds: float = MAX_CPU_SECONDS, mib: float = MAX_MIB) -> Iterator[None]:
    """Fail where one try takes more: CPU time, so that a busy machine fails nothing, and what the
    peak of this process's memory grows by."""
    peak_before, cpu_before = _peak_mib(), time.process_time()
    yield
    cpu, grown = time.process_time() - cpu_before, _peak_mib() - peak_before
    assert cpu <= cpu_seconds, f"took {cpu:.1f} CPU seconds"
    assert grown <= mib, f"took {grown:.0f} MiB"


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB_PER_MIB


# What no author means: numbers at their ends, text that is no text, wrong kinds, depth and length.
NUMBERS = st.sampled_from(
    [0, -1, 1, 2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**18, 10**400, 0.0, -0.0, 1e-320, 1e308]
)
TEXTS = st.sampled_from(
    [
        "",
        " ",
        "\x00",
        "\x1b[2J\x1b]0;title\x07",
        "\u202eright to left",
        "line\nbreak\r\n",
        "../../etc/passwd",
        "/absolute",
        "x" * 300,
        "x" * 100_000,
        "{{resolve:ssm:/secret}}",
        "${AWS::Region}",
        "${Token[TOKEN.1]}",
        "<script>alert(1)</script>",
        "'; DROP TABLE runs; --",
        "%s%n{0}{}",
        "日本語 🚀 é",
        "null",
        "NaN",
        "1e999",
    ]
)
SCALARS = st.one_of(NUMBERS, TEXTS, st.booleans(), st.none(), st.text(max_size=20))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=8,
)
