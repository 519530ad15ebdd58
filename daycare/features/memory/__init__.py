"""Memory: what was said and what was learned from it, documents, and what of both comes back into a prompt.

One memory's way, and what it is on each stretch:

    conversation_log.py            a turn has ended, its words are kept        Message -> StoredMemory, an entry
    facts/extraction_schedule.py   a worker is woken for what is new
    facts/extraction_worker.py     it reads entries, by a model (`distil`)
                                   or by rules (`extract`)                     StoredMemory -> NewFact
    facts/merging.py               compared with what is known                 NewFact -> MergeResult
    store/                         kept, with the mark that it was looked at   MergeResult -> StoredMemory, a fact
    embed/service.py               its vector is made
    search/service.py              found for a question                        StoredMemory -> MemoryHit
    recall.py                      put into the prompt

`service.py` wires all of it for the daemon. `reading.py` and `writing.py` are what an agent's tools do.
"""
