"""What is allowed, and what a person should look at before allowing it."""
