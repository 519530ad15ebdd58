"""Every bound of the daemon, with its unit in its name and the reason for the number."""

from typing import Final

MESSAGE_MAX_BYTES: Final = 64 * 1024  # four times the longest message of any chat platform; a paste still fits
KEY_MAX_CHARS: Final = 200  # idempotency key: platform + account + chat + kind + id is about 80
INBOX_MAX_MESSAGES: Final = 1_000  # unread per agent; past that a person waits for hours anyway
CONTROL_MAX_MESSAGES: Final = 100  # control messages that a full inbox still takes: nobody says /stop more often
OUTBOX_MAX_MESSAGES: Final = 1_000  # undelivered per agent
ASK_CHAIN_MAX: Final = 8  # agents asking agents; deeper chains exceed every sensible deadline
ASK_DEADLINE_S: Final = 300.0

COMMIT_MAX_OPERATIONS: Final = 1_024  # one group commit; larger batches gain nothing measurable
COMMIT_MAX_BYTES: Final = 4 * 1024 * 1024  # keeps a commit under some 50 ms on slow disks
DIRECTORY_MAX_AGENTS: Final = 4_096  # agents kept decoded in memory, about 4 MB
LIVING_CACHE_MAX_PATHS: Final = 4_096  # paths the writer knows by heart, about 0.5 MB
WRITE_QUEUE_MAX: Final = 16_384  # writes waiting for the writer thread: 16 batches, about a second of work

MAILBOX_MAX_ROWS: Final = 64  # rows an awake agent keeps in memory; the rest waits in the store
AWAKE_IDLE_S: Final = 30.0  # an awake agent without work goes back to sleep
SWEEP_S: Final = 5.0  # how often idle agents are looked for
TURNS_MAX_RUNNING: Final = 128  # turns at the same time in one daemon; bounds memory and provider load
WAKE_PAGE_AGENTS: Final = 256  # agents woken at a time while the backlog after a start is worked off

ATTEMPTS_MAX: Final = 5  # tries of one turn before its messages are parked as dead letters
LANE_RESTART_S: Final = 5.0  # after a defect outside of any turn
STORE_RETRY_S: Final = 1.0  # while the disk refuses
RETRY_BASE_S: Final = 1.0  # backoff 1, 4, 16, 64 s
RETRY_FACTOR: Final = 4.0
RETRY_MAX_S: Final = 300.0
CRASHES_MAX: Final = 5  # parked turns of one agent within CRASH_WINDOW_S before the agent itself is parked
CRASH_WINDOW_S: Final = 600.0

MERGE_MAX_MESSAGES: Final = 16  # queued messages of one person merged into one turn
MERGE_MAX_BYTES: Final = 64 * 1024
COLLECT_QUIET_S: Final = 1.5  # `collect` waits for this long a silence ...
COLLECT_MAX_S: Final = 15.0  # ... but never longer than this

TURN_DEADLINE_S: Final = 1_800.0
MODEL_STEPS_MAX: Final = 16  # model calls in one turn; ends a loop of tool calls
TOOL_DEADLINE_S: Final = 120.0
FILE_MAX_BYTES: Final = 20 * 1024 * 1024  # what Telegram gives to bots
FILES_MAX: Final = 10  # in one message: as an album of a messenger
FILE_TEXT_MAX_BYTES: Final = 64 * 1024  # of a text file that goes into a prompt whole
IMAGES_MAX_BYTES: Final = 20 * 1024 * 1024  # in one prompt, the newest first; providers refuse requests over 32 MB
TOOL_CALLS_MAX: Final = 32  # in one reply of a model; parallel calls are a handful
PROGRESS_MAX_CHARS: Final = 200  # of a line that says how far a tool is
READ_MAX_BYTES: Final = 12_000  # of a file or a kept result, read at a time
RESULT_MAX_CHARS: Final = 16_000  # of a helper's answer: 64 KiB of any script, so that it fits into an inbox
TOOL_RESULT_MAX_CHARS: Final = 16_000  # about 4,000 tokens
MODEL_FIRST_TOKEN_S: Final = 120.0  # local models load for a minute
MODEL_NEXT_TOKEN_S: Final = 60.0
REPLY_MAX_CHARS: Final = 200_000

DELIVERY_ATTEMPTS_MAX: Final = 8  # 1 s .. 5 min apart: about ten minutes of a platform being away
DELIVERY_DEADLINE_S: Final = 60.0

DONE_KEEP_S: Final = 30 * 86_400.0  # how long idempotency keys, turns, events and receipts outlive completion
EVENTS_RING: Final = 4_096  # live events kept for resuming observers
EVENTS_MAX_ROWS: Final = 200_000
DEAD_LETTERS_MAX: Final = 10_000
TIMERS_MAX_PER_AGENT: Final = 1_000
TIMERS_PAGE: Final = 256  # timers fired in one transaction
CHILDREN_MAX: Final = 10_000
AGENT_CONFIG_MAX_BYTES: Final = 64 * 1024

SHUTDOWN_GRACE_S: Final = 7.0  # running turns may finish before they are suspended
SHUTDOWN_REST_S: Final = 1.5  # for all else; then the process is cut off, in a moment for what it started
CLOSE_MAX_S: Final = 5.0  # from the end of turns and plugins to that of the process

assert MAILBOX_MAX_ROWS >= MERGE_MAX_MESSAGES, "one merge must fit in memory"
assert INBOX_MAX_MESSAGES >= MAILBOX_MAX_ROWS
assert COMMIT_MAX_BYTES >= 16 * MESSAGE_MAX_BYTES

NAME_MAX_CHARS: Final = 64  # one name in an address: a DNS label has 63, people write far less
CHILD_INDEX_MAX: Final = 2**31 - 1  # index of a sub-agent or search: fits a 32-bit column
SUB_LEVELS_MAX: Final = 8  # sub-agents of sub-agents: as deep as a chain of asks
PATH_MAX_CHARS: Final = 276  # the longest address that the bounds above allow; longer text is refused unread

MODEL_CONNECT_S: Final = 10.0  # a model server that takes longer to accept a connection is away
MODEL_LAST_FRAMES_S: Final = 2.0  # from a reply's end to the stream's, which follows at once or never
MODEL_FRAME_MAX_BYTES: Final = (
    2 * 1024 * 1024
)  # one SSE frame; a server that does not stream sends REPLY_MAX_CHARS in one
MODEL_ERROR_MAX_BYTES: Final = 16 * 1024  # of an error's body, which may be a whole web page

CONFIG_MAX_BYTES: Final = 256 * 1024  # config.toml; a written one has a few kilobytes
CONFIG_LOOK_S: Final = 2.0  # between two looks whether it was changed ...
CONFIG_BUSY_S: Final = 600.0  # ... for so long after a start or a change: who edits a file comes back to it ...
CONFIG_REST_S: Final = 15.0  # ... and then
CONFIG_STILL_S: Final = 0.5  # for so long nobody may have written to it: editors write in pieces
CONFIG_REASON_MAX_CHARS: Final = 2_000  # of what is told of a refused one
CONFIG_GONE_S: Final = 5.0  # and so long if it is empty or not there: some begin with that
SOCKET_PATH_MAX_BYTES: Final = 100  # a Unix socket's address holds 104 (macOS) to 108 (Linux) bytes, one of them NUL
VAULT_KEYS_MAX: Final = 16  # in the key file; each key is tried on a token that the newer ones do not open
LOG_FILES_KEPT: Final = 3  # full log files beside the current one
LOG_VALUE_MAX_CHARS: Final = 2_000  # of one field of a log line
COURIER_PAGE: Final = 64  # outbox rows read at a time
COURIER_SENDS_MAX: Final = 16  # replies of one connector on their way at the same time
COURIER_QUIET_S: Final = 5.0  # for replies on their way to arrive, before their connection is made anew
API_BODY_MAX_BYTES: Final = 256 * 1024  # a message of 64 KiB escaped as JSON fits
API_WAIT_MAX_S: Final = 600.0  # the longest a request waits for an answer
EVENTS_KEEPALIVE_S: Final = 15.0
EXPIRE_EVERY_S: Final = 3_600.0
HANDOVER_S: Final = 15.0  # for the daemon inside a chat to finish its turns and leave the home to `daycare run`
API_BODY_READ_MAX_BYTES: Final = 4 * 1024 * 1024  # of a refused body, so that its sender sees the refusal
API_BODY_DEADLINE_S: Final = 30.0  # a body on a Unix socket arrives at once
API_PAGE_MAX_ROWS: Final = 1_000  # rows of one listing
API_CONNECTIONS_MAX: Final = 256  # open at the same time; a window holds one or two
API_IDLE_S: Final = 60.0  # a connection without a request is closed
API_CLOSE_S: Final = 1.0  # for answers on their way when the daemon stops; streams end at once
API_DISMISS_S: Final = 5.0  # for an agent to end its turn and die
SECRET_MAX_CHARS: Final = 16 * 1024  # a private key in PEM has 3 KiB
NOTIFY_DIGEST_S: Final = 600.0  # repeats of one notice within ten minutes are told together
NOTIFY_LOOK_S: Final = 15.0
NOTICES_MAX_HELD: Final = 1_000
AGENTS_LISTED_MAX: Final = 200  # of one user, for a model to read: some 4,000 tokens
HELPERS_MAX: Final = 16  # helpers at work for one agent; a model that spawns more is out of its mind
HELPER_LEVELS_MAX: Final = 5  # helpers of helpers: more only hand on; SUBAGENTS_LIVING_MAX bounds what all cost
WAIT_MAX_S: Final = 86_400.0  # the longest a turn is set aside for an answer
OUTAGE_MAX_S: Final = 86_400.0  # a turn waits this long for a provider that is away, uncounted, before it is given up
CHILD_IDLE_S: Final = 600.0  # an idle sub-agent or search is dismissed after so long
CHILD_LOOK_S: Final = 60.0
START_CHECK_MAX_BYTES: Final = 64 * 1024 * 1024  # a database up to this size is checked whole at each start: 0.2 s
PLUGIN_LOAD_S: Final = 20.0  # to import a plugin and set it up: a large SDK on a slow disk takes some 5 s
PLUGIN_STOP_S: Final = 5.0  # for a cancelled plugin to say goodbye to its platform
PLUGIN_HEALTH_S: Final = 5.0
PLUGIN_STEADY_S: Final = 300.0  # a plugin that ran for so long begins its backoff anew
PLUGIN_TASKS_MAX: Final = 256  # background tasks of one plugin; more is a leak
HOOK_BEFORE_S: Final = 2.0  # a person waits for it
HOOK_BEFORE_MAX_CHARS: Final = 4_000  # of one plugin, into the prompt of one turn: about 1,000 tokens
HOOK_DEADLINE_S: Final = 30.0
HOOK_QUEUE_MAX: Final = 256  # events that wait for one plugin's hooks
HOOK_FAILURES_MAX: Final = 3  # in a row, before a hook is left out for a while
HOOK_PAUSE_S: Final = 60.0  # ... which grows by RETRY_FACTOR
HOOK_PAUSE_MAX_S: Final = 3_600.0
HOOK_DRAIN_S: Final = 2.0  # for what waits for hooks when the daemon stops
HOOK_END_S: Final = 1.0  # for cancelled hooks: they end at once or never
MODEL_THOUGHT_MAX_CHARS: Final = 1_000_000  # about 250,000 tokens of thought before and between the words of one reply
MODEL_LIST_PAGES_MAX: Final = 16  # of a server's list of models, up to 1,000 each

MODEL_CONTEXT_TOKENS: Final = 32_768  # of a model nobody knows: what today's small ones take
MODEL_OUTPUT_TOKENS: Final = 4_096  # of a model nobody knows
MODEL_TRIES_MAX: Final = 3  # of one choice within one call of a model, 1 and 4 s apart
MODEL_RETRY_BASE_S: Final = 1.0
MODEL_RETRY_FACTOR: Final = 4.0
MODEL_RETRY_AFTER_MAX_S: Final = 30.0  # a provider that asks for a longer pause is left for the next choice
MODEL_INFER_MAX_S: Final = 1_200.0  # all tries of one call; 200,000 characters at 50 tokens a second take 1,000
MODEL_FALLBACKS_MAX: Final = 8
BREAKER_FAILURES: Final = 3  # in a row before a provider counts as away: one call's tries
BREAKER_PAUSE_S: Final = 30.0  # before the first probe; doubles with each that fails ...
BREAKER_PAUSE_MAX_S: Final = 300.0  # ... up to this: a provider is back at most so long before it is noticed
BREAKER_PROBING_S: Final = 5.0  # when to ask again while somebody else's probe is on its way
MODEL_LIST_KEEP_S: Final = 3_600.0  # a provider's list of models changes every few weeks
MODEL_LIST_AGAIN_S: Final = 60.0  # before a provider that did not give its list is asked again
MODEL_LIST_DEADLINE_S: Final = 5.0  # somebody waits for a turn or a listing
MODEL_LIST_MAX: Final = 2_000  # names kept of one provider; the largest resellers have 500
MODEL_TEST_DEADLINE_S: Final = 90.0  # local models load for a minute
MODEL_TESTS_MAX: Final = 32  # models tested in one go

assert MODEL_INFER_MAX_S + MODEL_FIRST_TOKEN_S < TURN_DEADLINE_S, "a turn must see its model fail"

CONTEXT_MAX_TOKENS: Final = 200_000  # of a model's window that is used: past it a call costs a dollar and answers blur
CONTEXT_OUTPUT_TOKENS: Final = 16_384  # kept for an answer, where the model gives as many: some 12,000 words
CONTEXT_RESERVE_SHARE: Final = 0.05  # of the window, for what the estimate of tokens is wrong by
CONTEXT_CHARS_A_TOKEN: Final = 6  # stored JSON read for each token of the budget: 4 of words, the rest around them
CONTEXT_KNOWN_MAX: Final = 4_096  # agents whose counts of tokens are remembered, about 1 MB
CONTEXT_REFUSED_S: Final = 3_600.0  # for which a prompt as long as a refused one is not tried again
COMPACT_AT_SHARE: Final = 0.8  # of the budget: what is left takes a turn with several tool results
COMPACT_KEEP_SHARE: Final = 0.3  # of the budget for the newest turns, word by word: what is being talked about
COMPACTIONS_MAX: Final = 3  # in one turn, crashes included: each is a call of the model that somebody waits for
COMPACT_AGAIN_S: Final = 300.0  # before a summary that failed is tried again in the same conversation
COMPACT_DEADLINE_S: Final = 300.0  # for one summary, tries included
SUMMARY_SHARE: Final = 0.1  # of the budget
SUMMARY_MAX_TOKENS: Final = 4_000  # some 3,000 words; longer ones are lists that nobody reads
SUMMARY_MESSAGE_MAX_CHARS: Final = 8_000  # of one message that is to be summarised
SUMMARY_RESULT_MAX_CHARS: Final = 2_000  # of one tool's result that is to be summarised
CLEARED_SHOWN_CHARS: Final = 200  # of each end of a tool's result that had to leave the prompt

CHOICES_MAX: Final = 12  # answers to choose from: more do not fit a phone's screen
SPLIT_INLINE_MAX_CHARS: Final = 4_000  # a longer reply is cut in a thread: one of nothing but signs takes 50 ms
STRANGERS_MAX: Final = 1_000  # remembered of one connector, those who wrote last
PAIR_CODE_S: Final = 600.0  # a code can be typed for ten minutes
PAIR_TRIES_MAX: Final = 5  # wrong codes before every code that is out is void
PAIR_NOTICE_S: Final = 3_600.0  # between two codes for one stranger
PAIR_NOTICES_MAX: Final = 10  # codes shown a minute by one connector to people, and to groups: a flood ends
FRAGMENT_MAX_CHARS: Final = 4_000  # of what could not be read
CONNECTOR_NAMES_MAX: Final = 1_000  # values that one connector remembers
CONNECTOR_VALUE_MAX_CHARS: Final = 4_000
BATCH_MAX_ITEMS: Final = 1_000  # taken in with one commit; Telegram gives 100 at a time
TOPICS_MAX: Final = 100  # of one group that have users of their own: a budget of the group looks at each
SENDER_BURST: Final = INBOX_MAX_MESSAGES  # messages of one sender at once: a phone that was offline hands in a day's
SENDER_PER_MINUTE: Final = 60.0  # past the burst; by the platform's clock, so that an outage of ours costs nobody
CONNECTOR_BURST: Final = 20_000  # of all senders of one connector
CONNECTOR_PER_MINUTE: Final = 3_000.0
RATE_LIMIT_MAX_SENDERS: Final = 4_096  # whose pace is remembered
COMMAND_DEADLINE_S: Final = 30.0  # of a plugin's chat command
FETCH_DEADLINE_S: Final = 120.0  # to fetch a file of FILE_MAX_BYTES over a slow line
FETCH_PAUSE_S: Final = 60.0  # after a failure, so that a platform that hangs costs one answer and not each
FETCH_FAILURES_MAX: Final = 1_000  # files whose last fetch failed, remembered
CONTEXT_MAX_CHARS: Final = 4_000  # of what a message refers to, such as a quote

PAIR_DEADLINE_S: Final = 120.0  # until a bridge that is started for it has a code
PRESENCE_TURNS_MAX: Final = 256  # running turns shown to people at the same time, some 20 KB each; others are not shown
PRESENCE_BATCH: Final = 256  # events looked at in one go: under a millisecond
PRESENCE_CALL_S: Final = 10.0  # for a connector to show something; what takes longer is old when it is seen
OUTCOMES_LOOK_S: Final = 60.0  # for messages of requests that are decided; a new decision is seen at once
OUTCOMES_SOON_S: Final = 5.0  # where one could not be edited yet, and twice as long each time
PRESENCE_PAUSE_S: Final = 5.0  # after a failure without a time to wait
PRESENCE_REPLY_S: Final = 10.0  # how long a preview stays for its reply, so that the chat is not empty in between
PRESENCE_TYPING_SHARE: Final = 0.8  # of the time that typing is seen: then it is shown again
WITHDRAW_TRIES_MAX: Final = 4  # 2, 8 and 32 s apart; what is left then goes at the next start
WITHDRAW_BASE_S: Final = 2.0
WITHDRAW_PAUSE_MAX_S: Final = 60.0
PREVIEW_FIRST_CHARS: Final = 20  # some words: a draft that begins with half of one looks broken
PREVIEW_FIRST_S: Final = 0.5  # ... or what came by then
PREVIEW_MAX_CHARS: Final = 3_000  # shown of a long text, its end: a screen or two, and under every platform's limit
PREVIEW_KEPT_CHARS: Final = 2_000  # when it is cut, so that its beginning does not move with each word
STATUS_AFTER_S: Final = 2.0  # before a message is sent for what may be over by then
STATUS_TICK_S: Final = 10.0  # between two looks at the time a tool takes; drafts fade after 30 s

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
MEMORY_PATH_MAX_CHARS: Final = 200  # of a document's path: the longest legal one has 141
SHARED_FILES_MAX: Final = 20_000  # looked at in the exported folder
SHARED_FOLDER_MAX_CHARS: Final = 200  # of an agent's folder; file systems take 255 bytes

PROMPT_SHARE: Final = 0.5  # of a prompt's budget for identity and memory: the rest is the conversation's
PROMPT_IDENTITY_MAX_TOKENS: Final = 4_000  # each of IDENTITY, SOUL, STYLE and USER: some 3,000 words of a person
PROMPT_OTHERS_MAX_TOKENS: Final = 2_000  # the list of the user's other agents ...
PROMPT_OTHERS_MAX: Final = 50  # ... and how many it has: a model picks badly from more, and can ask for all
PROMPTS_KEPT_MAX: Final = 256  # whole prompts kept in memory, 3 to 100 KB each
PROMPT_USERS_MAX: Final = 1_000  # whose list is kept in memory, some 30 KB each at most
PROMPT_SKILLS_MAX_TOKENS: Final = 4_000  # the list of skills, a line each
PROMPT_SKILLS_KNOWN_MAX: Final = 4_096  # first lines kept in memory, under 1 MB
PROMPT_MEMORY_MAX_TOKENS: Final = 12_000  # MEMORY.md; what is longer is read with a tool
PROMPT_DAILY_MAX_TOKENS: Final = 2_000  # each of two days' logs, its end
PROMPT_RECALLED_MAX_TOKENS: Final = 100_000  # of one tier; how much is recalled is the owner's setting
PROMPT_LINE_MAX_CHARS: Final = 200  # of a description in a list
PERSONALITY_MAX_BYTES: Final = 64 * 1024  # twenty traits with long descriptions have 12 KiB
PERSONALITIES_MAX: Final = 200  # files of the owner that are looked at

APPROVALS_OPEN_MAX: Final = 10  # pending requests of an agent and its helpers: more at once nobody reads
APPROVALS_PER_HOUR: Final = 30  # requests of an agent and its helpers, decided ones included
APPROVAL_S: Final = 7 * 86_400.0  # a request waits for a decision: a holiday of a week
APPROVAL_SHOWN_MAX_CHARS: Final = 2_800  # of a difference in a message: with all around it one message of a phone
APPROVAL_FINDINGS_MAX: Final = 32  # kept of one request
APPROVAL_FINDINGS_SHOWN: Final = 3  # named in a message, the worst first
APPROVAL_TRIES_MAX: Final = 3  # to make a request of a document that others change meanwhile
APPROVALS_PAGE: Final = 100  # requests of one listing: each may hold 100 KB
GRANT_MAX_S: Final = 86_400.0  # for so long at most a kind of request is approved at once
DIFFERENCE_MAX_LINES: Final = 4_000  # compared of both texts together; past it all that differs is shown as replaced
DIFFERENCE_MAX_EDITS: Final = 400  # looked for: the time grows with lines times edits
ECHO_INLINE_MAX_CHARS: Final = 10_000  # compared with what was recalled at once, some 5 ms; more in a thread
ECHO_ORIGINALS_MAX: Final = 20  # memories that an agent's answer is compared with, those most like it
ECHO_POSTINGS_MAX: Final = 1_000  # entries of the index of words read to find them, under 1 ms
SESSION_LOOKED_AT_MAX: Final = 400  # messages searched for words from outside; a longer conversation has some

SCRIBE_TURNS: Final = 64  # logged with one commit
SCRIBE_PAUSE_S: Final = 0.5  # before ended turns are logged: several go together, and the answer goes first
SCRIBE_SHARE: Final = 0.25  # of the time at most, when many turns wait to be logged
HANDOFF_LOOK_S: Final = 300.0  # between two looks at what waits for memory workers, when nothing is said
EXTRACTION_PAGE: Final = 64  # agents whose log is looked at, or entries that expire, at once: some milliseconds
HANDOFF_OLDEST_S: Final = 86_400.0  # what waits for so long is handed off whatever else holds: once a day at least
EMBED_BATCH: Final = 32  # texts embedded with one call: 3,072 numbers each are 1.2 MB of JSON
EMBED_PAUSE_S: Final = 0.02  # between two calls: a share of the machine, and of a provider's rate, is left for others
EMBED_RETRY_BASE_S: Final = 2.0  # before an embedder that failed is asked again; doubles ...
EMBED_RETRY_MAX_S: Final = 300.0  # ... up to this: so long at most until it is noticed that it works again
EMBED_DROP_ROWS: Final = 2_000  # vectors of a model that is used no more, deleted with one commit: some 10 ms
EMBED_QUESTION_S: Final = 5.0  # that somebody who searches waits for the vector of their question
EMBED_TEXT_MAX_CHARS: Final = 8_000  # of one text: models read 256 to 8,192 tokens, and cut the rest themselves

MEMORY_TEXT_MAX_CHARS: Final = 16_000  # of one memory: chunks have 1,200; what is longer is cut into several before
MEMORY_STEM_MAX_CHARS: Final = 64  # of a word in the index, so that encoded data does not fill it; never change it
MEMORY_SCOPES_MAX: Final = 2**20 - 1  # whose numbers fit into a vector's key
MEMORY_MODELS_MAX: Final = 2**11 - 1  # of embedders whose vectors are kept at the same time, for the same reason
MEMORY_CHANGES_MAX: Final = 100_000  # remembered, so that caches need not start over: a year of a busy daemon
FORGET_WAIT_S: Final = 30.0  # for readers of the file, before old pages can be overwritten
RECALL_LINE_MAX_CHARS: Final = 1_300  # of one recalled memory: a chunk of a long message
RECALL_QUESTIONS_MAX: Final = 256  # questions whose vectors are on their way or not fetched yet
RECALL_AGENTS_MAX: Final = 4_096  # agents whose last recalled memories are remembered, some 2 KB each
RECALL_RECENT: Final = 4  # messages before a question that say what it is about
RECALL_STICKY_FOLD: Final = 2  # of what a prompt has room for: what was shown stays as long as it is among so many
CURATE_MAX_CHARS: Final = 24_000  # of the log that a memory worker reads in one piece: some 6,000 tokens
CURATE_OUTPUT_TOKENS: Final = 4_000  # for what a model learned of one piece
CURATE_KNOWN_MAX: Final = 200  # facts, and entities, that what is new is compared with
CURATE_COMPARABLE_MAX: Final = 1_000  # older facts that it may end: attributes of one person, in 20 ms
PASSAGE_QUESTION_MAX_CHARS: Final = 8_000  # of what was said, looked for in a document: as much as is embedded
PROMPT_HEADINGS_MAX: Final = 50  # of a document that has no room in a prompt: so that a model knows what is in it
CHUNK_PAGE: Final = 16  # documents cut in one go: 1.6 MB at most
CHUNK_PAUSE_S: Final = 0.2  # before changed documents are cut: who writes them goes first
SEARCH_POSTINGS_MAX: Final = 10_000  # entries of the index of words that one search reads: some 8 ms
SEARCH_SCOPES_MAX: Final = 256  # of which something is kept in memory: 70 bytes a memory, its vector and its words ...
SEARCH_MAX_BYTES: Final = 32 * 1024 * 1024  # ... as long as all take no more, but for the one asked last
SEARCH_INLINE_ROWS: Final = 10_000  # memories searched in the loop's thread: some 4 ms, with another thread 5
SEARCH_READ_ROWS: Final = 1_000  # of what is kept in memory, read there before: some 5 ms; more in a thread of its own
WHY_EVENTS_MAX: Final = 1_000  # of an agent, looked through for what was recalled
FORGET_MAX: Final = 100  # memories forgotten with one request

RULES_MAX: Final = 200  # `[[rules]]` of config.toml, and of one agent: all are looked at for each action
HISTORY_READ_MAX: Final = 50  # messages of another agent's conversation that a tool shows
HOPS_MAX: Final = 32  # agents by whose turns a message came about: 16 rounds between two, one for each model step
HOPS_AT_ONCE: Final = 4  # after so many each further message of a chain waits, longer and longer: models are slower ...
HOP_PAUSE_S: Final = 0.25  # ... and a loop of fast ones leaves the machine to others
HOP_PAUSE_MAX_S: Final = 5.0
BEGINS_ANEW_S: Final = 60.0  # a reminder so far ahead begins a chain anew; a shorter one is a detour of the same
PAIR_PER_MINUTE: Final = 30  # messages between two agents, both ways together: one every two seconds is a storm
PAIRS_MAX: Final = 4_096  # pairs of agents whose last messages are remembered, some 2 MB at most
STORM_QUIET_S: Final = 600.0  # for which nothing more of a stopped chain of messages is sent: its turns have ended then
STORMS_MAX: Final = 1_024  # stopped chains remembered at a time
SUBAGENTS_LIVING_MAX: Final = 128  # helpers alive below one root, idle ones included: CHILD_IDLE_S of steady work
SUBAGENTS_DAILY_MAX: Final = 500  # helpers made below one root in 24 hours: each costs at least one call of a model
SUBAGENTS_DAY_S: Final = 86_400.0

assert min(SUB_LEVELS_MAX, ASK_CHAIN_MAX) >= HELPER_LEVELS_MAX, "an address and a chain of asks must hold them"
assert HELPERS_MAX <= SUBAGENTS_LIVING_MAX <= SUBAGENTS_DAILY_MAX
LOOKUP_LINE_MAX_CHARS: Final = 600  # of one memory that a tool finds: twenty fit into a result; one can be read whole
LOOKUP_MAX: Final = 20  # memories that a tool finds with one query
LOOKUP_SPEAKING_MAX: Final = 10_000  # memories with the words of somebody's name, the newest: some 10 ms ...
LOOKUP_NAMED_MAX: Final = 80  # ... and the best of them, whose texts are looked at for the name itself
LOOKUP_NAMES_MAX: Final = 50  # people and things of one name, or entries that one fact was learned from
LOOKUP_DOCUMENTS_MAX: Final = 5  # found by their words beside memories: daily logs, and what was written just now
QUESTION_MAX_CHARS: Final = 2_000  # of a question to memory: a long paragraph
SEARCH_CALLS_MAX: Final = 12  # searches and readings for one question to memory, of which each costs tokens
SEARCHES_MAX: Final = 64  # questions to memory at work for one agent: each is one or a few calls of a model
SEARCH_DEADLINE_S: Final = 300.0  # for an answer to one: a handful of model calls
SEARCH_ANSWER_MAX_CHARS: Final = 6_000  # so that its sources fit behind it into one message
SEARCH_SOURCES_MAX: Final = 20  # named below an answer

BUDGET_WARN_SHARE: Final = 0.8  # of a limit: people are told, and what works in the background stops
BUDGET_CALL_S: Final = 60.0  # of model time reserved for a call: few take longer
BUDGET_ROOM_S: Final = 60.0  # that a call waits for calls that run to give back what they did not need
BUDGET_LOOK_S: Final = 5.0  # between two looks at it, should nobody have told
BUDGET_STRAND_S: Final = 2 * TURN_DEADLINE_S  # after which no turn stands behind a reservation any more
BUDGET_USERS_KNOWN_S: Final = 10.0  # for which a user's zone and rank are remembered
BUDGET_RAISE_REPLAYS_MAX: Final = 50  # messages answered after all when a budget is raised
BUDGET_DAYS_KEPT: Final = 400  # of sums by day: a year and what it is compared with
BUDGET_HELPER_DAYS_KEPT: Final = 62  # before the sums of helpers become their agent's: this month and the last
BUDGET_MONTHS_KEPT: Final = 120
BUDGET_TOLD_MAX: Final = 4_096  # of whom it is remembered that they were told why nothing is answered
SPEND_DAYS_MAX: Final = 400  # asked for at once
SPEND_ROWS_MAX: Final = 50_000  # sums in one answer, some 15 MB: a hundred agents for a year

CRON_JOBS_MAX: Final = 200  # of one user that are due some day; more is a program's work, not a person's
CRON_LOOK_S: Final = 30.0  # between two looks at the wall clock, which may be set meanwhile, or the machine asleep
CRON_ON_TIME_S: Final = 60.0  # what begins within this was not late: a restart takes seconds
CRON_PAGE: Final = 64  # jobs fired in one transaction
CRON_DUE_MAX: Final = 500  # missed times of one job recorded in one transaction: 5 ms to find them
CRON_MISSED_ROWS: Final = 100  # of a long absence with a row of their own; the others share one
CRON_CATCH_UP_S: Final = 5.0  # between two late runs of whatever jobs: 12 a minute
CRON_QUEUE_MAX: Final = 10  # unfinished runs of one job that queues them
CRON_RUNS_KEPT: Final = 2_000  # of one job's ledger: three weeks of one that runs each quarter of an hour
CRON_RETRY_BASE_S: Final = 300.0  # before a failed run's next attempt: its turn was tried for minutes. Doubles ...
CRON_RETRY_MAX_S: Final = 3_600.0  # ... up to this
CRON_AGENT_EVERY_S: Final = 600.0  # the least time between two runs of a job that an agent made: each costs money
CRON_FILES_MAX: Final = 200  # in the folder cron/
CRON_FILE_MAX_BYTES: Final = 64 * 1024
CRON_FILES_LOOK_S: Final = 10.0  # between two looks at the folder
CRON_ANSWER_SHOWN_CHARS: Final = 2_000  # of the last answer, in a fresh session's prompt
CRON_TOLD_MAX_CHARS: Final = 4_000  # of an answer, in the conversation of the agent whose person got it

assert CRON_LOOK_S < CRON_ON_TIME_S, "what the look between finds is on time"

LASTING_AGENTS_MAX: Final = 100  # of one user, made by agents: more than a person will ever tell apart
TASKS_MAX: Final = 50  # of one user that have not ended; more is a program's work
TASK_DEADLINE_S: Final = 86_400.0  # unless another is given: who asked today has forgotten it tomorrow
TASK_DEADLINE_MAX_S: Final = 31 * 86_400.0
TASK_PROGRESS_KEPT: Final = 20  # lines of one task, the newest: a screen
TASK_HAD_MAX_CHARS: Final = 4_000  # of what a task had when it was stopped
TASK_LOOK_S: Final = 60.0  # between two looks for ended tasks when nothing was heard of any
TASK_PAGE: Final = 64  # tasks looked at in one go

BEHAVIOUR_DEADLINE_S: Final = 120.0  # of one turn of an app: as long as a tool may take
BEHAVIOUR_STATE_MAX_BYTES: Final = 64 * 1024  # of JSON that an app keeps: a list of a thousand entries; more is files
BEHAVIOUR_WAIT_S: Final = 5.0  # that a turn waits for its plugin to start; then it is put off
GC_FIRST_S: Final = 60.0  # after a start, which has other work
GC_PAUSE_S: Final = 1.0  # between two bites, each some 10 to 50 ms: messages go first
GC_TURN_S: Final = 900.0  # of one round; what is left then is for the next
GC_SHRINK_BYTES: Final = 4 * 1024 * 1024  # given back to the disk in one bite
GC_FREE_SHARE: Final = 0.2  # of the file that stays free for new rows ...
GC_FREE_MIN_BYTES: Final = 16 * 1024 * 1024  # ... and so much at least: giving it back and taking it again costs more
HEALTH_LOOK_S: Final = 60.0
HEALTH_BAD_S: Final = (
    300.0  # that something is bad before somebody is told: restarts and short outages are not worth it
)
HEALTH_GOOD_S: Final = 120.0  # that it is good again before that is told, so that what comes and goes is told once
HEALTH_RECENT_S: Final = 86_400.0  # of which a report tells what went wrong
HEALTH_DISK_MIN_BYTES: Final = 512 * 1024 * 1024  # free, below which the disk is nearly full: a day of a busy home
HEALTH_LAG_S: Final = 2.0  # that the loop is late: a person notices that
HEALTH_UNREAD_S: Final = 3_600.0  # that a message waits: no turn takes so long

SNAPSHOTS_KEPT: Final = 3  # of before upgrades: three releases to go back
BACKUP_LOOK_S: Final = 60.0  # whether a scheduled backup is due
BACKUP_RETRY_S: Final = 900.0  # after one that failed: a disk that is full or away comes back within that, or not soon
BACKUP_LATE: Final = 2.0  # times the interval without a backup, after which something is wrong
BACKUP_FOLDER_MAX_BYTES: Final = 64 * 1024 * 1024  # of a plugin's folder: sessions and indexes, no collections of media
BACKUP_FILES_MAX: Final = 50_000  # beside the database: they are all named in memory
BACKUP_MANIFEST_MAX_BYTES: Final = 32 * 1024 * 1024  # 600 bytes for each of these

WATCHDOG_STALLED_S: Final = 15.0  # without getting on: three rounds of SWEEP_S, or a disk that takes no commit
STATUS_EVERY_S: Final = 10.0  # between two looks at what `systemctl status` shows, where no watchdog is asked for
START_LOOK_S: Final = 10.0  # between two looks whether a start is at work
START_EXTEND_S: Final = 60.0  # more, for a start that is
START_MAX_S: Final = 3_600.0  # ... and in all: a migration of the largest database takes minutes
UNCLEAN_STARTS_MAX: Final = 3  # starts after a run that did not end in order ...
UNCLEAN_WITHIN_S: Final = 300.0  # ... within this time, before connectors stay down
HOLD_S: Final = 900.0  # for which they do
HOLD_TRY_S: Final = 60.0  # that one is watched before the next is tried; what kills, kills within seconds
HOLD_LOOK_S: Final = 1.0

EXPORT_AGENTS_MAX: Final = 10_000  # of one subtree: their ids are in memory while they come in
EXPORT_TURNS_MAX: Final = 200_000  # 50 a day for ten years
EXPORT_MEMORIES_MAX: Final = 100_000  # other writes wait while they get into the index, 0.1 ms for each
EXPORT_OTHERS_MAX: Final = 100_000  # records of any other kind
EXPORT_FILES_MAX: Final = 20_000
EXPORT_LINE_MAX_BYTES: Final = 16 * 1024 * 1024  # one record: a turn of many long results has a few MB
EXPORT_RECORDS_MAX_BYTES: Final = 1024 * 1024 * 1024  # of all records, unpacked
EXPORT_MAX_BYTES: Final = 4 * 1024 * 1024 * 1024  # of an export, packed, and of its files, unpacked
EXPORT_CHUNK_BYTES: Final = 64 * 1024  # read, packed, encrypted and sent at a time
EXPORT_KEPT_S: Final = 3_600.0  # an export that nobody fetches, an upload that nobody imports
EXPORTS_KEPT_MAX: Final = 8  # of both
EXPORT_SILENCE_S: Final = 60.0  # of a client that sends or fetches one
EXPORT_PROGRESS_S: Final = 1.0  # between two signs of life

SIGNAL_TYPE_MAX_CHARS: Final = 320  # the longest path between two words
SIGNAL_SEGMENTS_MAX: Final = 8
SIGNAL_DATA_MAX_BYTES: Final = 16 * 1024  # of UTF-8: an event's details; what is longer is a document's or a file's
SIGNAL_AFTER_MAX_S: Final = 366 * 86_400.0
SIGNAL_IDLE_S: Final = 60.0  # without work, after which an agent is idle: most conversations pause for less
SIGNALS_PER_MINUTE: Final = 30  # of one agent, each of which may reach hundreds
SIGNALS_WAITING_MAX: Final = 500  # of one user that are not due; more is a program's work
SIGNALS_PAGE: Final = 64  # due ones looked at in one go
SIGNALS_LOOK_S: Final = 60.0  # between two looks at the wall clock, which may be set meanwhile
SUBSCRIPTIONS_MAX_PER_AGENT: Final = 50
SUBSCRIPTIONS_MAX_PER_USER: Final = 500  # one signal may reach as many agents, with one commit
HEARTBEAT_MIN_S: Final = 300.0  # between two beats: each costs at least one call of a model
HEARTBEAT_MAX_S: Final = 7 * 86_400.0
HEARTBEAT_LOOK_S: Final = 30.0  # between two looks at whose heart is to beat
HEARTBEATS_MAX: Final = 1_000  # agents looked at
