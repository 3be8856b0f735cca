"""Commands that look into the AWS account: before a deploy, between runs, after a destroy."""
