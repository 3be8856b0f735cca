"""Commands that work on the AWS account: before a deploy, between runs, after a destroy."""
