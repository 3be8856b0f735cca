"""The check that the account may start the instance types of an experiment at all."""

from draftworth.account.checks import check
from draftworth.experiment.aws import CPU_INSTANCE_TYPE


def account_plan(situation: check.Situation) -> check.CheckResult:
    """Check that the account is not on the Free plan, which new accounts may have.

    On that plan EC2 refuses all but some small instance types, so a deploy would pay for a cluster
    and then fail at its CPU nodes.
    """
    home = check.home_region(situation.region, situation.clients)
    if home.name != check.HOME_REGIONS["aws"]:
        return check.skipped(f"accounts with {situation.region} have no plan")
    doing, missing = "read the account's plan", "ResourceNotFoundException"
    plan = home.ask(doing, "freetier", "get_account_plan_state", missing)
    if plan is None:
        return check.passed("the account has no plan that limits instance types")
    if plan["accountPlanType"] == "FREE":
        return check.failed(
            f"the account is on the Free plan, on which EC2 starts no {CPU_INSTANCE_TYPE} and no "
            f"{situation.experiment.spec.instance_type}",
            "`aws freetier upgrade-account-plan --account-plan-type PAID --region us-east-1`, "
            "which cannot be taken back",
        )
    return check.passed("the account is on the Paid plan")
