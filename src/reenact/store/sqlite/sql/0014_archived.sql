-- Values that were moved to a bundle: where they lay, so that they are put back there, and the bundle's digest. A row goes
-- when its value is back, or is erased. That it was taken out stands in `erasures`; these tables only say where to look.
CREATE TABLE archived (payload_id INTEGER PRIMARY KEY, commitment BLOB NOT NULL, bundle TEXT NOT NULL);
CREATE TABLE archives (
    run_no INTEGER NOT NULL, bundle TEXT NOT NULL, place TEXT NOT NULL,
    PRIMARY KEY (run_no, bundle)
) WITHOUT ROWID;
