"""A bridge that obeys a test, and the messenger behind it: `python -m daycare_plugins.bridge.testing.fake`."""
