"""draftworth: does speculative decoding pay for your prompts on AWS Trainium2?

This is the domain package. Except in `account`, it imports no library of AWS, Kubernetes or CDK;
`docs/architecture.md` states this rule, and `tests/test_dependency_rule.py` checks it.
"""

__version__ = "0.1.0"
