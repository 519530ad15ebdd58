"""Skills: the standard, what a model is given of one, and whose yes that takes."""
