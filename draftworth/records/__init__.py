"""Records that one program writes to disk or S3 and another reads; no third-party packages."""
