"""Hearing and speaking: voice notes that come are read as if they were typed, and answers are spoken on request."""
