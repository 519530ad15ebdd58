"""Around the daemon: setting a home up, and running it as a process or inside of one."""
