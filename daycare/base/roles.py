"""Names of parts of the daemon that only one of several nodes may run at a time."""


def of_connector(name: str) -> str:
    """Return the role of the node that is connected with an account of a messenger, or of all accounts of a plugin."""
    return f"connector:{name}"
