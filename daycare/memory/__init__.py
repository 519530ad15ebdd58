"""Memory: documents that people and agents keep, shown as files, and their exchange with a folder on disk."""
