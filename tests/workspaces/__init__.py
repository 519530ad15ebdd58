"""Files in workspaces: no path leads out, no change is lost, and what needs a person's yes waits for it."""
