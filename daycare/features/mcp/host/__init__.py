"""The process that speaks with one server: `python -m daycare.features.mcp.host` forks one for each.

The library of the protocol costs 45 MB and takes text from outside apart, so it runs here. The process ends with its
input; one that gets stuck is ended by the kernel, by a bound of processor time that only a live one moves on.
"""
