"""Attacks on the network door: what strangers, other people, pages and proxies try; none of it may get through."""
