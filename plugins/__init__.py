"""Plugins that ship with daycare, importable as `daycare_plugins`.

Each may import `daycare.plugin` and `daycare.base`, and nothing else of ours. A folder `testing` in it holds a fake
of its platform, which may import `daycare.testing`, too.
"""
