"""Routes that show one agent by its id: identity, chats with their memory, files, skills, credentials."""
