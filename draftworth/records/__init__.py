"""What is written to disk or S3 by one program and read by another. Standard library only."""
