"""Several real daemons on one database: what is lost, doubled or owned twice when nodes, lines and the server fail."""
