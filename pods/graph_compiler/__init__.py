"""Compiles one server's graphs without a device, in the image that serves them."""
