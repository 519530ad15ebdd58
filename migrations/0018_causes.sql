-- Messages are kept with their cause from here on. Those that wait are read as they are; earlier versions could not read
-- the new ones, and so refuse this database.

SELECT 1;
