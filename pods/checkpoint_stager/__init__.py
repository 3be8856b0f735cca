"""The checkpoint stager: one model from the hub into the checkpoints bucket, whole or not READY."""
