"""What is suggested to who sets a home up: providers by their titles, and a model of each that does well."""

from typing import Final

TITLES: Final = {"openai": "OpenAI", "anthropic": "Anthropic", "openrouter": "OpenRouter", "ollama": "Ollama"}
USUAL_MODELS: Final = {
    "openai": "gpt-5-mini",
    "anthropic": "claude-sonnet-5",
    "openrouter": "openai/gpt-5-mini",
}
