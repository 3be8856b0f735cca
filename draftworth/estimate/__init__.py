"""What a draft will yield and save, without a device, from outputs that the target gave."""
