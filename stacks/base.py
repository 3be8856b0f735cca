"""What the stacks have in common."""

from __future__ import annotations

from aws_cdk import CfnOutput, Environment, IStackSynthesizer, Stack, Tags
from constructs import Construct

from draftworth.planning.resolved import ResolvedNeuron


class ExperimentStack(Stack):
    """One of an experiment's stacks: named, tagged, in the experiment's region.

    The account stays open until deployment. With it, CDK would look zones up in the account; the
    experiment says them, and synthesis needs no credentials.
    """

    def __init__(
        self,
        scope: Construct,
        part: str,
        *,
        experiment: ResolvedNeuron,
        description: str,
        synthesizer: IStackSynthesizer | None = None,
    ) -> None:
        self.names, self.own_tags = experiment.names, experiment.names.tags(part)
        name = self.names.stack(part)
        super().__init__(
            scope,
            name,
            stack_name=name,
            description=f"draftworth {experiment.name}: {description}",
            env=Environment(region=experiment.spec.aws.region),
            # CloudFormation hands a stack's own tags on at deployment, also to the resources that
            # CDK writes without; those in the template can be seen before.
            tags=self.own_tags,
            synthesizer=synthesizer,
        )
        for key, value in self.own_tags.items():
            Tags.of(self).add(key, value)

    def output(self, id_: str, value: str, description: str) -> None:
        """A value that a person or a command looks up after the deploy."""
        CfnOutput(self, id_, value=value, description=description)
