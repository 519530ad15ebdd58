"""What others see of the daemon: the live events (`bus`) and the log (`log`). Never in the path of a message."""
