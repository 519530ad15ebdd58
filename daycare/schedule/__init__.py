"""What happens by itself at a time."""
