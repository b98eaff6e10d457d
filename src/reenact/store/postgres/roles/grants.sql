-- Who may do what with the store of reenact in the schema ":schema" of this database.
--
-- Run it as a superuser, or as who may create roles and owns the database; then, as ":owner", `reenact db upgrade`,
-- which makes the tables; then this again: it may be run as often as you like, and is to be run after every upgrade.
-- Give ":owner" a password, and let people and programs in by making their users members of the other roles:
-- GRANT ":worker" TO somebody.

DO $$
DECLARE
    v_role text;
BEGIN
    FOREACH v_role IN ARRAY ARRAY[':owner', ':worker', ':eraser', ':auditor'] LOOP
        IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = v_role) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', v_role);
        END IF;
    END LOOP;
    ALTER ROLE ":owner" LOGIN;
    IF NOT EXISTS (SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = ':schema') THEN
        CREATE SCHEMA ":schema" AUTHORIZATION ":owner";
    END IF;
    IF to_regclass('":schema".store') IS NULL THEN
        RAISE NOTICE 'there are no tables yet: say `reenact db upgrade` as :owner, and then run this again';
        RETURN;
    END IF;

    REVOKE ALL ON SCHEMA ":schema" FROM PUBLIC;
    REVOKE ALL ON ALL TABLES IN SCHEMA ":schema" FROM PUBLIC, ":worker", ":eraser", ":auditor";
    GRANT USAGE ON SCHEMA ":schema" TO ":worker", ":eraser", ":auditor";

    -- Who checks reads all but the secret that idempotency keys are made with.
    GRANT SELECT ON ALL TABLES IN SCHEMA ":schema" TO ":worker", ":eraser", ":auditor";
    REVOKE ALL ON ":schema".key_secret FROM ":auditor";

    -- Who runs agents adds evidence, and changes or deletes none of it.
    GRANT INSERT ON ":schema".commits, ":schema".payloads, ":schema".late_effects, ":schema".keys, ":schema".notes,
        ":schema".log_checkpoints, ":schema".log_cosignatures, ":schema".log_timestamps, ":schema".log_contradictions
        TO ":worker";
    GRANT INSERT ON ":schema".traces, ":schema".contents, ":schema".shared_payloads, ":schema".run_checkpoints,
        ":schema".seals, ":schema".store TO ":worker";
    GRANT INSERT, UPDATE ON ":schema".runs, ":schema".spending, ":schema".limits, ":schema".kv_writes,
        ":schema".tallies TO ":worker";
    GRANT INSERT, UPDATE, DELETE ON ":schema".idempotency, ":schema".earmarks, ":schema".ballots, ":schema".kv,
        ":schema".log_nodes, ":schema".log_peers TO ":worker";
    GRANT UPDATE ON ":schema".counters TO ":worker";
    GRANT USAGE, SELECT ON SEQUENCE ":schema".run_numbers TO ":worker";
    GRANT EXECUTE ON FUNCTION ":schema".add_partitions(bigint) TO ":worker";

    -- Who erases and archives deletes values, and what says where they lay; on record.
    GRANT INSERT, DELETE ON ":schema".payloads TO ":eraser";
    GRANT INSERT ON ":schema".erasures, ":schema".keys, ":schema".notes TO ":eraser";
    GRANT DELETE ON ":schema".contents, ":schema".shared_payloads, ":schema".run_checkpoints, ":schema".ballots
        TO ":eraser";
    GRANT UPDATE ON ":schema".counters, ":schema".late_effects TO ":eraser";
    GRANT UPDATE (cancel) ON ":schema".runs TO ":eraser";
    GRANT INSERT, UPDATE, DELETE ON ":schema".idempotency, ":schema".archived, ":schema".archives TO ":eraser";
END $$;
