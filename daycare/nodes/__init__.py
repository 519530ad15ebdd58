"""What nodes that share a store tell and ask each other beside it. Nothing that must not be lost goes this way."""
