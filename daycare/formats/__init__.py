"""Files that are no plain text, as text for a model: PDF, Office, EPUB and HTML, each in a process of its own."""
