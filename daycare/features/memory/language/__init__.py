"""What words mean: English and German, by lists and rules."""
