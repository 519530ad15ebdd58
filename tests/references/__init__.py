"""Reference pages made from the code: `python -m tests.references` writes all of them."""
