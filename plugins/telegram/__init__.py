"""The Telegram connector, a plugin: a bot for each agent, nothing lost, nothing said twice."""
