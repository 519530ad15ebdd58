"""The faults campaign: a real daemon over model servers that do everything wrong, and a count of the harm."""
