"""Records that one program writes to disk or S3 and another program reads.

The modules need no third-party packages, because pods and Lambda functions that have none use them.
"""
