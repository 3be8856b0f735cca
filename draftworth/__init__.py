"""draftworth: does speculative decoding pay for your prompts on AWS Trainium2?

The domain package. It imports neither AWS nor Kubernetes nor CDK libraries; see
`docs/architecture.md` for the dependency rule and `tests/test_dependency_rule.py` for its test.
"""

__version__ = "0.1.0"
