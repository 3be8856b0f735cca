"""How many random inputs a test tries, what each may cost, and how a good document is changed."""

import copy
import functools
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import hypothesis
from hypothesis import strategies as st

from tests.support.reference_loop import reference_loop_cpu_seconds

MAX_LOOPS = 10.0
# The largest result file that is read: 11 MiB of bytes, again 11 MiB as text, 285 MiB of objects.
MAX_MIB = 320.0
_KIB_PER_MIB = 1024


def tries(full: int, *, few: int = 25) -> hypothesis.settings:
    """Return Hypothesis settings: `full` random examples in `make fuzz`, else `few` fixed ones."""
    default = hypothesis.settings.default
    assert default is not None
    return hypothesis.settings(
        max_examples=few if default.derandomize else full,
        suppress_health_check=[
            hypothesis.HealthCheck.too_slow,
            hypothesis.HealthCheck.function_scoped_fixture,
            hypothesis.HealthCheck.data_too_large,
            hypothesis.HealthCheck.filter_too_much,
        ],
    )


Place = tuple[Any, ...]


def places(value: Any, above: Place = ()) -> Iterator[Place]:
    """Yield the path (keys and indices) of each value inside a JSON value. above: put before it."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*above, key)
            yield from places(item, (*above, key))


def at(value: Any, place: Place) -> Any:
    """Return the value at a path (keys and indices) inside a JSON value."""
    for key in place:
        value = value[key]
    return value


@contextmanager
def bounded(*, loops: float = MAX_LOOPS, mib: float = MAX_MIB) -> Iterator[None]:
    """Fail if the `with` block takes more CPU time or memory than it may.

    loops: the most CPU time, as a multiple of the time of a reference loop, so that a busy or slow
    machine does not fail. mib: the most MiB by which this process's peak memory may grow.
    """
    peak_before, cpu_before = _peak_mib(), time.process_time()
    yield
    cpu, grown = time.process_time() - cpu_before, _peak_mib() - peak_before
    taken = cpu / _reference_at_first()
    if taken > loops:  # Measure the loop again: the machine may have become slower.
        taken = cpu / reference_loop_cpu_seconds()
    assert taken <= loops, f"took {taken:.1f} times the CPU time of the reference loop"
    assert grown <= mib, f"took {grown:.0f} MiB"


_reference_at_first = functools.cache(reference_loop_cpu_seconds)


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB_PER_MIB


# Values that no author means: extreme numbers, odd texts, wrong types, depth and length.
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
# Numbers that our readers accept, although some are absurd.
TAKEN = st.sampled_from(
    [
        *(0, 1, 2, 7, 8, 64, 1_000, 10_080, 86_400, 10_000_000, 2**40, 2**62, 253_402_300_799),
        *(1e-18, 1e-9, 0.001, 0.5, 1e9, 1e12),
    ]
)
WAYS = st.sampled_from([*["same"] * 8, "other", "none", "copied", "gone", "renamed"])
Draw = Callable[[st.SearchStrategy[Any]], Any]


def edit(
    draw: Draw,
    document: Any,
    *,
    values: st.SearchStrategy[Any] = VALUES,
    names: st.SearchStrategy[str] = TEXTS,
) -> None:
    """Change one value of a JSON document in place, mostly to another value of its type.

    values: what replaces a value of any type. names: texts for values and keys.
    """
    all_places = [*places(document)]
    if not all_places:
        return
    *above, key = draw(st.sampled_from(all_places))
    parent = at(document, tuple(above))
    value, how = parent[key], draw(WAYS)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if how == "gone":
        del parent[key]
    elif how == "copied":
        copies = [copy.deepcopy(value) for _ in range(draw(st.sampled_from([1, 2, 40, 300])))]
        if isinstance(parent, dict):
            parent.update({f"{key}{number}": each for number, each in enumerate(copies)})
        else:
            parent.extend(copies)
    elif how == "renamed" and isinstance(parent, dict):
        parent[draw(names | st.just(str(key)[1:]))] = parent.pop(key)
    elif how == "same" and (is_number or isinstance(value, str)):
        parent[key] = draw(TAKEN | NUMBERS if is_number else names)
    else:
        parent[key] = None if how == "none" else copy.deepcopy(draw(values))
