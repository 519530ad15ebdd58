-- nodes-from: 0032
-- From here on `history.messages` and `inbox.result` are stored packed in a file, which no older daycare can read: so the
-- schema has a number of its own. Rows that are there stay as they are, and are read all the same.
DROP INDEX users_below; -- there is `users_by_parent`, which is the same
