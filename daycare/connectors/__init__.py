"""Where people are: connectors, and the courier that brings replies to them."""
