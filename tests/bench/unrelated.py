"""Messages that are about nothing that a dialogue of two friends has: courtesies, and tasks that need no memory."""

COURTESIES = (
    *("hello", "hi", "hey there", "Hello!", "good morning", "thanks", "thank you so much", "ok", "great, thanks!"),
    *("bye", "hallo", "guten morgen", "danke", "cool", "good night", "how are you?", "what's up?", "Hi Ann"),
)
TASKS = (
    "What is 17 times 23?",
    "Translate 'where is the station' into Portuguese.",
    "Write a regular expression that matches an IPv4 address.",
    "What's the capital of Mongolia?",
    "Explain how a B-tree splits a node.",
    "Convert 30 miles to kilometres.",
    "How do I undo the last git commit?",
    "Why is the sky blue?",
    "Write a haiku about autumn.",
    "What is the boiling point of ethanol?",
    "Summarize the second law of thermodynamics.",
    "Who wrote Don Quixote?",
    "Give me a SQL query that counts rows per month.",
    "What does HTTP status 409 mean?",
    "How many bits are in a kibibyte?",
    "Fix the grammar: he don't knows nothing.",
    "What is the plural of octopus?",
    "Set a timer for ten minutes.",
    "What's the weather in Oslo?",
    "List the planets of the solar system.",
)
