"""Every bound of the daemon, with its unit in its name and the reason for the number."""

from typing import Final

MESSAGE_MAX_BYTES: Final = 64 * 1024  # four times the longest message of any chat platform; a paste still fits
KEY_MAX_CHARS: Final = 200  # idempotency key: platform + account + chat + kind + id is about 80
INBOX_MAX_MESSAGES: Final = 1_000  # unread per agent; past that a person waits for hours anyway
OUTBOX_MAX_MESSAGES: Final = 1_000  # undelivered per agent
ASK_CHAIN_MAX: Final = 8  # agents asking agents; deeper chains exceed every sensible deadline
ASK_DEADLINE_S: Final = 300.0

COMMIT_MAX_BYTES: Final = 4 * 1024 * 1024  # keeps a commit under some 50 ms on slow disks
LIVING_CACHE_MAX_PATHS: Final = 4_096  # paths the writer knows by heart, about 0.5 MB

MAILBOX_MAX_ROWS: Final = 64  # rows an awake agent keeps in memory; the rest waits in the store
AWAKE_IDLE_S: Final = 30.0  # an awake agent without work goes back to sleep
SWEEP_S: Final = 5.0  # how often idle agents are looked for
TURNS_MAX_RUNNING: Final = 128  # turns at the same time in one daemon; bounds memory and provider load
WAKE_PAGE_AGENTS: Final = 256  # agents woken at a time while the backlog after a start is worked off

ATTEMPTS_MAX: Final = 5  # tries of one turn before its messages are parked as dead letters
STORE_RETRY_S: Final = 1.0  # while the disk refuses
RETRY_BASE_S: Final = 1.0  # backoff 1, 4, 16, 64 s
RETRY_FACTOR: Final = 4.0
RETRY_MAX_S: Final = 300.0
CRASH_WINDOW_S: Final = 600.0

MERGE_MAX_MESSAGES: Final = 16  # queued messages of one person merged into one turn

TURN_DEADLINE_S: Final = 1_800.0
FILE_MAX_BYTES: Final = 20 * 1024 * 1024  # what Telegram gives to bots
AUDIO_TOKENS_A_S: Final = 10  # what a second of sound counts as, where the provider does not say
FILES_MAX: Final = 10  # in one message: as an album of a messenger
IMAGES_MAX_BYTES: Final = 20 * 1024 * 1024  # in one prompt, the newest first; providers refuse requests over 32 MB
PROGRESS_MAX_CHARS: Final = 200  # of a line that says how far a tool is
MODEL_FIRST_TOKEN_S: Final = 120.0  # local models load for a minute
MODEL_NEXT_TOKEN_S: Final = 60.0
REPLY_MAX_CHARS: Final = 200_000


DONE_KEEP_S: Final = 30 * 86_400.0  # how long idempotency keys, turns, events and receipts outlive completion
DEAD_LETTERS_MAX: Final = 10_000
TIMERS_MAX_PER_AGENT: Final = 1_000
AGENT_CONFIG_MAX_BYTES: Final = 64 * 1024

SHUTDOWN_GRACE_S: Final = 7.0  # running turns may finish before they are suspended
SHUTDOWN_REST_S: Final = 1.5  # for all else; then the process is cut off, in a moment for what it started

assert MAILBOX_MAX_ROWS >= MERGE_MAX_MESSAGES, "one merge must fit in memory"
assert INBOX_MAX_MESSAGES >= MAILBOX_MAX_ROWS
assert COMMIT_MAX_BYTES >= 16 * MESSAGE_MAX_BYTES

NAME_MAX_CHARS: Final = 64  # one name in an address: a DNS label has 63, people write far less
SUB_LEVELS_MAX: Final = 8  # sub-agents of sub-agents: as deep as a chain of asks
PATH_MAX_CHARS: Final = 276  # the longest address that the bounds above allow; longer text is refused unread

MODEL_FRAME_MAX_BYTES: Final = (
    2 * 1024 * 1024
)  # one SSE frame; a server that does not stream sends REPLY_MAX_CHARS in one

CONFIG_MAX_BYTES: Final = 256 * 1024  # config.toml; a written one has a few kilobytes
API_WAIT_MAX_S: Final = 600.0  # the longest a request waits for an answer
API_PAGE_MAX_ROWS: Final = 1_000  # rows of one listing
SECRET_MAX_CHARS: Final = 16 * 1024  # a private key in PEM has 3 KiB
HELPERS_MAX: Final = 16  # helpers at work for one agent; a model that spawns more is out of its mind
HELPER_LEVELS_MAX: Final = 5  # helpers of helpers: more only hand on; SUBAGENTS_LIVING_MAX bounds what all cost
WAIT_MAX_S: Final = 86_400.0  # the longest a turn is set aside for an answer
OUTAGE_MAX_S: Final = 86_400.0  # a turn waits this long for a provider that is away, uncounted, before it is given up
CHILD_IDLE_S: Final = 600.0  # an idle sub-agent or search is dismissed after so long
START_CHECK_MAX_BYTES: Final = 64 * 1024 * 1024  # a database up to this size is checked whole at each start: 0.2 s
PLUGIN_LOAD_S: Final = 20.0  # to import a plugin and set it up: a large SDK on a slow disk takes some 5 s
MODEL_THOUGHT_MAX_CHARS: Final = 1_000_000  # about 250,000 tokens of thought before and between the words of one reply

MODEL_OUTPUT_TOKENS: Final = 4_096  # of a model nobody knows
MODEL_INFER_MAX_S: Final = 1_200.0  # all tries of one call; 200,000 characters at 50 tokens a second take 1,000
MODEL_FALLBACKS_MAX: Final = 8
BREAKER_PAUSE_S: Final = 30.0  # before the first probe; doubles with each that fails, up to BREAKER_PAUSE_MAX_S
MODEL_LIST_AGAIN_S: Final = 60.0  # before a provider that did not give its list is asked again
MODEL_LIST_MAX: Final = 2_000  # names kept of one provider; the largest resellers have 500

assert MODEL_INFER_MAX_S + MODEL_FIRST_TOKEN_S < TURN_DEADLINE_S, "a turn must see its model fail"

CONTEXT_OUTPUT_TOKENS: Final = 16_384  # kept for an answer, where the model gives as many: some 12,000 words
CONTEXT_CHARS_A_TOKEN: Final = 6  # stored JSON read for each token of the budget: 4 of words, the rest around them
TOOLS_KNOWN_MAX: Final = 1_024  # tools whose descriptions are kept as they are sent, some 500 bytes each
CONTEXT_KNOWN_MAX: Final = 4_096  # agents whose counts of tokens are remembered, about 1 MB
COMPACTIONS_MAX: Final = 3  # in one turn, crashes included: each is a call of the model that somebody waits for

CHOICES_MAX: Final = 12  # answers to choose from: more do not fit a phone's screen
STRANGERS_MAX: Final = 1_000  # remembered of one connector, those who wrote last
PAIR_CODE_S: Final = 600.0  # a code can be typed for ten minutes
PAIR_TRIES_MAX: Final = 5  # wrong codes before every code that is out is void
PAIR_NOTICE_S: Final = 3_600.0  # between two codes for one stranger
FRAGMENT_MAX_CHARS: Final = 4_000  # of what could not be read
BATCH_MAX_ITEMS: Final = 1_000  # taken in with one commit; Telegram gives 100 at a time
TOPICS_MAX: Final = 100  # of one group that have users of their own: a budget of the group looks at each
SENDER_BURST: Final = INBOX_MAX_MESSAGES  # messages of one sender at once: a phone that was offline hands in a day's
CONTEXT_MAX_CHARS: Final = 4_000  # of what a message refers to, such as a quote

PRESENCE_CALL_S: Final = 10.0  # for a connector to show something; what takes longer is old when it is seen

DOCUMENT_MAX_BYTES: Final = 100 * 1024  # of UTF-8: some 25,000 tokens; a person reads for an hour
DOCUMENTS_MAX: Final = 1_000  # living ones of one owner: a listing is one page
DAILY_LOGS_MAX: Final = 10_000  # of one agent: 27 years
DOCUMENTS_TOTAL_BYTES: Final = 100 * 1024  # of one agent, daily logs left out; past it a warning, no refusal
DOCUMENTS_WARN_SHARE: Final = 0.8  # of DOCUMENTS_TOTAL_BYTES: the first warning
DOCUMENT_REASON_MAX_CHARS: Final = 1_000  # of a reason or a source: what a person reads before deciding
DOCUMENT_PROVENANCE_MAX: Final = 32  # sources of one version
DOCUMENT_VERSIONS_MAX: Final = 100  # of one document looked at for who stands behind it
DOCUMENT_SEARCH_WORDS_MAX: Final = 32  # of a query; each costs a look into the index
DOCUMENT_SEARCH_MAX: Final = 50  # results of a search: each passage costs up to 2 ms
DAILY_LINE_MAX_CHARS: Final = 4_000  # of one entry of a daily log
SHARED_FILES_MAX: Final = 20_000  # looked at in the exported folder

PROMPTS_KEPT_MAX: Final = 256  # whole prompts kept in memory, 3 to 100 KB each
PROMPT_LINE_MAX_CHARS: Final = 200  # of a description in a list

APPROVALS_OPEN_MAX: Final = 10  # pending requests of an agent and its helpers: more at once nobody reads
APPROVALS_PER_HOUR: Final = 30  # requests of an agent and its helpers, decided ones included
APPROVAL_S: Final = 7 * 86_400.0  # a request waits for a decision: a holiday of a week
APPROVALS_PAGE: Final = 100  # requests of one listing: each may hold 100 KB
APPROVALS_SHOWN_PAGE: Final = 20  # requests of one listing with their texts and differences: 6 MB at worst
GRANT_MAX_S: Final = 86_400.0  # for so long at most a kind of request is approved at once
CALL_GRANTS_MAX: Final = 100  # patterns of calls that one agent may make unasked: a list a person can read
SESSION_LOOKED_AT_MAX: Final = 400  # messages searched for words from outside; a longer conversation has some

EMBED_QUESTION_S: Final = 5.0  # that somebody who searches waits for the vector of their question

MEMORY_TEXT_MAX_CHARS: Final = 16_000  # of one memory: chunks have 1,200; what is longer is cut into several before
RECALL_LINE_MAX_CHARS: Final = 1_300  # of one recalled memory: a chunk of a long message ...
RECALL_LINE_HEAD_CHARS: Final = 16  # ... and before it, at least: when it was said, or what it is
SEARCH_INLINE_ROWS: Final = 10_000  # memories searched in the loop's thread: some 4 ms, with another thread 5
FORGET_MAX: Final = 100  # memories forgotten with one request

RULES_MAX: Final = 200  # `[[rules]]` of config.toml, and of one agent: all are looked at for each action
HOPS_MAX: Final = 32  # agents by whose turns a message came about: 16 rounds between two, one for each model step
SUBAGENTS_LIVING_MAX: Final = 128  # helpers alive below one root, idle ones included: CHILD_IDLE_S of steady work
SUBAGENTS_DAILY_MAX: Final = 500  # helpers made below one root in 24 hours: each costs at least one call of a model

assert min(SUB_LEVELS_MAX, ASK_CHAIN_MAX) >= HELPER_LEVELS_MAX, "an address and a chain of asks must hold them"
assert HELPERS_MAX <= SUBAGENTS_LIVING_MAX <= SUBAGENTS_DAILY_MAX
LOOKUP_MAX: Final = 20  # memories that a tool finds with one query
QUESTION_MAX_CHARS: Final = 2_000  # of a question to memory: a long paragraph
SEARCH_CALLS_MAX: Final = 12  # searches and readings for one question to memory, of which each costs tokens
SEARCHES_MAX: Final = 64  # questions to memory at work for one agent: each is one or a few calls of a model
SEARCH_DEADLINE_S: Final = 300.0  # for an answer to one: a handful of model calls

BUDGET_WARN_SHARE: Final = 0.8  # of a limit: people are told, and what works in the background stops
BUDGET_STRAND_S: Final = 2 * TURN_DEADLINE_S  # after which no turn stands behind a reservation any more
BUDGET_TOLD_MAX: Final = 4_096  # of whom it is remembered that they were told why nothing is answered
SPEND_DAYS_MAX: Final = 400  # asked for at once

CRON_JOBS_MAX: Final = 200  # of one user that are due some day; more is a program's work, not a person's
CRON_LOOK_S: Final = 30.0  # between two looks at the wall clock, which may be set meanwhile, or the machine asleep
CRON_ON_TIME_S: Final = 60.0  # what begins within this was not late: a restart takes seconds
CRON_RETRY_MAX_S: Final = 3_600.0  # the longest pause before a failed run's next attempt

assert CRON_LOOK_S < CRON_ON_TIME_S, "what the look between finds is on time"

LASTING_AGENTS_MAX: Final = 100  # of one user, by agents or of templates: more than a person will tell apart
TASK_DEADLINE_S: Final = 86_400.0  # unless another is given: who asked today has forgotten it tomorrow
TASK_DEADLINE_MAX_S: Final = 31 * 86_400.0

BEHAVIOUR_STATE_MAX_BYTES: Final = 64 * 1024  # of JSON that an app keeps: a list of a thousand entries; more is files
HEALTH_BAD_S: Final = (
    300.0  # that something is bad before somebody is told: restarts and short outages are not worth it
)

BACKUP_LATE: Final = 2.0  # times the interval without a backup, after which something is wrong
BACKUP_FILES_MAX: Final = 50_000  # beside the database: they are all named in memory

START_EXTEND_S: Final = 60.0  # more, for a start that is
START_MAX_S: Final = 3_600.0  # for a start in all: a migration of the largest database takes minutes
UNCLEAN_STARTS_MAX: Final = 3  # starts after runs that did not end in order, before connectors stay down
HOLD_S: Final = 900.0  # for which they do

EXPORT_TURNS_MAX: Final = 200_000  # 50 a day for ten years
EXPORT_FILES_MAX: Final = 20_000
EXPORT_LINE_MAX_BYTES: Final = 16 * 1024 * 1024  # one record: a turn of many long results has a few MB
EXPORT_MAX_BYTES: Final = 4 * 1024 * 1024 * 1024  # of an export, packed, and of its files, unpacked
EXPORT_CHUNK_BYTES: Final = 64 * 1024  # read, packed, encrypted and sent at a time

SIGNAL_AFTER_MAX_S: Final = 366 * 86_400.0
SIGNAL_IDLE_S: Final = 60.0  # without work, after which an agent is idle: most conversations pause for less
SIGNALS_PER_MINUTE: Final = 30  # of one agent, each of which may reach hundreds
SIGNALS_WAITING_MAX: Final = 500  # of one user that are not due; more is a program's work
