"""The command line `daycare`: one file for each group of commands."""
