"""draftworth: does speculative decoding pay for your prompts on AWS Trainium2?

This is the domain package. Except in `account`, it imports no library of AWS, Kubernetes or CDK;
`docs/architecture.md` has this dependency rule, and `tests/test_dependency_rule.py` its test.
"""

__version__ = "0.1.0"
