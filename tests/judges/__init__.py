"""Judges that nobody here wrote: the vendors' own client libraries and their types."""
