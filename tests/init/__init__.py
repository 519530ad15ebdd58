"""Setting up a home: what is asked, tried, shown and written."""
