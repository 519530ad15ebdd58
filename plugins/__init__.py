"""Plugins that ship with daycare, importable as `daycare_plugins`; each may import `daycare.plugin` and `daycare.base` only."""
