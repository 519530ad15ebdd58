"""Plugins that ship with daycare, importable as `daycare_plugins`.

Each may import `daycare.plugin` and `daycare.base`, and nothing else of ours.
"""
