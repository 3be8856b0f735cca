"""What a draft will yield and save, before a device exists: from outputs that the target gave."""
