"""The check that Lambda runs as many functions at a time as a deploy and its run need."""

from draftworth.account.checks import check
from draftworth.experiment.aws import KUBECTL_AT_ONCE

QUOTA = "Concurrent executions (L-B99A9384)"
# A deploy's kubectl functions: each resource takes two, CDK's function and the one that it calls.
DEPLOY = 2 * KUBECTL_AT_ONCE
# Beside them run the capacity controller, the metrics publisher and the functions that empty
# buckets. Lambda calls these again when it had no room; CDK's function does not.
WANTED = DEPLOY + 4


def concurrent_executions(situation: check.Situation) -> check.CheckResult:
    """Check that the account's limit of concurrent executions has room for a deploy's functions.

    Counted is what is not reserved for other functions of the account. How many of these run now
    is not counted, because they may be many in the next minute.
    """
    limits = situation.here.ask("read Lambda's limits", "lambda", "get_account_settings")
    free = int(limits["AccountLimit"]["UnreservedConcurrentExecutions"])
    words = f"{QUOTA}: {free} that no function has reserved; a deploy takes {DEPLOY}"
    raise_it = (
        f"aws service-quotas request-service-quota-increase --region {situation.region} "
        "--service-code lambda --quota-code L-B99A9384 --desired-value 1000 (takes hours to days)"
    )
    if free < DEPLOY:
        return check.failed(f"{words}: TooManyRequestsException would end it", raise_it)
    if free < WANTED:
        return check.warned(
            f"{words}, and {WANTED} leave room for the experiment's own functions",
            f"deploy while no other function of the account runs, or {raise_it}",
        )
    return check.passed(f"{words}, {WANTED} with the experiment's own functions")
