"""Commands in their sandbox: what they reach, and what is left of them."""
