"""What happens inside a turn: the prompt, the loop of model and tools, and the commands of a chat."""
