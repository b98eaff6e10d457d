-- The id that a host gave to a session, by which the same program finds it again. Of several runs with one id of an agent
-- the newest counts: it goes on where the one before it was ended.
ALTER TABLE runs ADD COLUMN session TEXT;
CREATE INDEX runs_by_session ON runs (session) WHERE session IS NOT NULL;
