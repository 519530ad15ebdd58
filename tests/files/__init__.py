"""Files in a bucket: the protocol, the store with it, a daemon with it, and what happens when either fails."""
