"""Ground floor: values every other package shares. Only msgspec and the standard library; no I/O, no trio."""
