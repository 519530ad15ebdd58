"""Files in a bucket that speaks the protocol of S3: `[files] backend = "s3"`.

The store says which files there are; of those in the bucket it has the name of the object and the SHA-256 of its bytes.
An object is put there before the row that names it is committed (`bucket.py`), under a random name that tells nothing
of what it is or whose, and is written once. What no row names any more is removed after that is committed, and what no
row ever came to name is found by listing (`upkeep.py`). `moving.py` carries files both ways.
"""
