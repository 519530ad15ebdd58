"""Memory: what was said and what was learned from it, documents, and what of both comes back into a prompt.

One memory's way, and what it is on each stretch:

    log.py                         a turn has ended, its words are kept        Message -> Memory, an entry of the log
    facts/handoff.py               a worker is woken for what is new
    facts/extraction_worker.py        it reads entries, by a model (`distil`)
                                   or by rules (`extract`)                     Memory -> NewFact
    facts/merging.py               compared with what is known                 NewFact -> MergeResult
    store/                         kept, with the mark that it was looked at   MergeResult -> Memory, a fact
    embed/service.py               its vector is made
    search/service.py              found for a question                        Memory -> Hit
    recall.py                      put into the prompt

`service.py` wires all of it for the daemon. `reading.py` and `writing.py` are what an agent's tools do.
"""
