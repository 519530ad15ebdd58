-- Whether a try of an open turn runs (0: it waits for the next, 1: it runs, 2: it runs while no other does), and how
-- many starts found that it had run when the process died.
ALTER TABLE turns ADD COLUMN trying INTEGER NOT NULL DEFAULT 1;
ALTER TABLE turns ADD COLUMN interrupted INTEGER NOT NULL DEFAULT 0;
UPDATE turns SET trying = 0 WHERE turn NOT IN (SELECT turn FROM history);
