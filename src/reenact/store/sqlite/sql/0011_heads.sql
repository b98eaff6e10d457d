-- Each commit's head is authenticated beside the chain: `mac` = kid (8 bytes) and HMAC-SHA-256 (32 bytes) over
-- `["reenact.head.v1", store id, run_id, n, head]`. It may be added where there is none, and is never changed. A store of
-- before gets those of its open runs when it is first opened with its key; a note of schema `reenact.heads.v1` says so.
ALTER TABLE commits ADD COLUMN mac BLOB;

-- What recovery starts from: `mac` as above, over `["reenact.frontier.v2", store id, run_id, n, SHA-256 of frontier]`.
-- Without one the row is of before: kid and Ed25519 signature stand at the beginning of `frontier`.
ALTER TABLE run_checkpoints ADD COLUMN mac BLOB;

DROP TRIGGER commits_are_not_updated;
CREATE TRIGGER commits_are_not_updated BEFORE UPDATE OF id, body, digest ON commits
BEGIN SELECT RAISE(ABORT, 'commits are append-only'); END;
CREATE TRIGGER commits_keep_their_macs BEFORE UPDATE OF mac ON commits WHEN OLD.mac IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'commits are append-only'); END;
