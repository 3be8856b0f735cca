"""What the programs of a deployment tell each other: the capacity plan, and servers' states."""

from draftworth.records import servers
from tests.lambdas.capacity_controller import plans


def test_a_model_in_both_roles_is_listed_once() -> None:
    assert plans.make_plan().models == (plans.TARGET, plans.DRAFT)
    plan = plans.make_plan(target=plans.DRAFT)
    assert plan.models == (plans.DRAFT,)


def test_a_logs_end_is_kept_as_printable_lines() -> None:
    kept = servers.last_lines((*(f"line {number}" for number in range(100)), "\x1b[2J red"))
    assert len(kept) == servers.LAST_LINES
    assert kept[-1] == "\\x1b[2J red"
    assert kept[0] == "line 51"
