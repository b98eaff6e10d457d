-- Keys of calls are authenticated, and so is that there is none: `next` names the row after it in the order of server,
-- tool and key, with a newline between them (empty in the last), `mac` = kid (8 bytes) and HMAC-SHA-256 (32 bytes) over
-- `["reenact.key.v1", store id, all other columns in their order]`. The first row, with an empty server, tool and key,
-- is no key: it says which one comes first. A store of before gets all of it when it is first opened with its key.
ALTER TABLE idempotency ADD COLUMN next TEXT;
ALTER TABLE idempotency ADD COLUMN mac BLOB;
