"""The messenger kit: what every connector to a messenger needs. Import its modules one by one: some are heavy."""
