-- A browser that was logged in is a token, too: the one in its cookie. `paths` narrows what a token is for.
ALTER TABLE api_tokens ADD COLUMN kind TEXT NOT NULL DEFAULT 'program';
ALTER TABLE api_tokens ADD COLUMN paths TEXT NOT NULL DEFAULT '';
