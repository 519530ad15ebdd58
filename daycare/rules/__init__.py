"""What may be done and what a person should look at first."""
