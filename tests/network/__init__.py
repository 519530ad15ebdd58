"""The API over the network: tokens, who may what, and what browsers and strangers get."""
