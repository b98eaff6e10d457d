-- What the database itself refuses, whoever asks. They stop accidents and honest programs; their owner can take them
-- off, and `verify` notes one that is missing. On a partitioned table a row's guard holds for every partition.

CREATE FUNCTION :schema.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% are append-only', TG_ARGV[0] USING ERRCODE = 'RN001';
END $$;

CREATE TRIGGER commits_are_not_changed BEFORE UPDATE OR DELETE ON :schema.commits
    FOR EACH ROW EXECUTE FUNCTION :schema.refuse('commits');
CREATE TRIGGER commits_are_not_emptied BEFORE TRUNCATE ON :schema.commits
    FOR EACH STATEMENT EXECUTE FUNCTION :schema.refuse('commits');
CREATE TRIGGER payloads_are_not_changed BEFORE UPDATE ON :schema.payloads
    FOR EACH ROW EXECUTE FUNCTION :schema.refuse('but for erasure, payloads');
CREATE TRIGGER payloads_are_not_emptied BEFORE TRUNCATE ON :schema.payloads
    FOR EACH STATEMENT EXECUTE FUNCTION :schema.refuse('but for erasure, payloads');
CREATE TRIGGER erasures_are_not_changed BEFORE UPDATE OR DELETE ON :schema.erasures
    FOR EACH ROW EXECUTE FUNCTION :schema.refuse('erasures');
CREATE TRIGGER erasures_are_not_emptied BEFORE TRUNCATE ON :schema.erasures
    FOR EACH STATEMENT EXECUTE FUNCTION :schema.refuse('erasures');
CREATE TRIGGER keys_are_not_changed BEFORE UPDATE OR DELETE ON :schema.keys
    FOR EACH ROW EXECUTE FUNCTION :schema.refuse('keys');
CREATE TRIGGER keys_are_not_emptied BEFORE TRUNCATE ON :schema.keys
    FOR EACH STATEMENT EXECUTE FUNCTION :schema.refuse('keys');
CREATE TRIGGER key_secret_is_not_changed BEFORE UPDATE OR DELETE ON :schema.key_secret
    FOR EACH ROW EXECUTE FUNCTION :schema.refuse('the key secret and all that is like it');
CREATE TRIGGER key_secret_is_not_emptied BEFORE TRUNCATE ON :schema.key_secret
    FOR EACH STATEMENT EXECUTE FUNCTION :schema.refuse('the key secret and all that is like it');
CREATE TRIGGER notes_are_not_changed BEFORE UPDATE OR DELETE ON :schema.notes
    FOR EACH ROW EXECUTE FUNCTION :schema.refuse('notes');
CREATE TRIGGER notes_are_not_emptied BEFORE TRUNCATE ON :schema.notes
    FOR EACH STATEMENT EXECUTE FUNCTION :schema.refuse('notes');
CREATE TRIGGER log_checkpoints_are_not_changed BEFORE UPDATE OR DELETE ON :schema.log_checkpoints
    FOR EACH ROW EXECUTE FUNCTION :schema.refuse('checkpoints');
CREATE TRIGGER log_checkpoints_are_not_emptied BEFORE TRUNCATE ON :schema.log_checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION :schema.refuse('checkpoints');
CREATE TRIGGER log_cosignatures_are_not_changed BEFORE UPDATE OR DELETE ON :schema.log_cosignatures
    FOR EACH ROW EXECUTE FUNCTION :schema.refuse('cosignatures');
CREATE TRIGGER log_cosignatures_are_not_emptied BEFORE TRUNCATE ON :schema.log_cosignatures
    FOR EACH STATEMENT EXECUTE FUNCTION :schema.refuse('cosignatures');
CREATE TRIGGER log_timestamps_are_not_changed BEFORE UPDATE OR DELETE ON :schema.log_timestamps
    FOR EACH ROW EXECUTE FUNCTION :schema.refuse('timestamps');
CREATE TRIGGER log_timestamps_are_not_emptied BEFORE TRUNCATE ON :schema.log_timestamps
    FOR EACH STATEMENT EXECUTE FUNCTION :schema.refuse('timestamps');
CREATE TRIGGER log_contradictions_are_not_changed BEFORE UPDATE OR DELETE ON :schema.log_contradictions
    FOR EACH ROW EXECUTE FUNCTION :schema.refuse('contradictions');
CREATE TRIGGER log_contradictions_are_not_emptied BEFORE TRUNCATE ON :schema.log_contradictions
    FOR EACH STATEMENT EXECUTE FUNCTION :schema.refuse('contradictions');

-- Signed heads only grow.
CREATE FUNCTION :schema.refuse_smaller_head() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM :schema.log_checkpoints WHERE size >= NEW.size) THEN
        RAISE EXCEPTION 'checkpoints are append-only' USING ERRCODE = 'RN001';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER log_checkpoints_grow BEFORE INSERT ON :schema.log_checkpoints
    FOR EACH ROW EXECUTE FUNCTION :schema.refuse_smaller_head();

-- What an executor left behind holds values: they go when their run has a record of erasure, and never otherwise. The
-- number stays, emptied: a gap is then always something else.
CREATE FUNCTION :schema.refuse_late_effect() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.id = OLD.id AND NEW.run_no = OLD.run_no AND NEW.trace_id = '' AND NEW.body = ''
        AND EXISTS (SELECT 1 FROM :schema.erasures e WHERE e.run_no = OLD.run_no)
    THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'late effects are append-only, and go only with an erasure' USING ERRCODE = 'RN001';
END $$;
CREATE TRIGGER late_effects_are_not_changed BEFORE UPDATE OR DELETE ON :schema.late_effects
    FOR EACH ROW EXECUTE FUNCTION :schema.refuse_late_effect();
CREATE TRIGGER late_effects_are_not_emptied BEFORE TRUNCATE ON :schema.late_effects
    FOR EACH STATEMENT EXECUTE FUNCTION :schema.refuse('late effects');

-- Partitions, each of 2^20 runs, are made before they are needed: the one of this run and the one after it.
CREATE FUNCTION :schema.add_partitions(p_run_no bigint) RETURNS void LANGUAGE plpgsql
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_table text; v_name text; v_part bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(':schema add_partitions', 0));
    FOR v_part IN SELECT p FROM generate_series(p_run_no >> 20, (p_run_no >> 20) + 1) p LOOP
        FOREACH v_table IN ARRAY ARRAY['commits', 'payloads', 'traces', 'contents', 'shared_payloads', 'run_checkpoints']
        LOOP
            v_name := v_table || '_' || v_part;
            CONTINUE WHEN to_regclass(':schema.' || quote_ident(v_name)) IS NOT NULL;
            EXECUTE format(
                'CREATE TABLE :schema.%I PARTITION OF :schema.%I FOR VALUES FROM (%s) TO (%s)',
                v_name, v_table, v_part << 20, (v_part + 1) << 20
            );
            IF v_table IN ('commits', 'payloads') THEN
                EXECUTE format(
                    'CREATE TRIGGER %I BEFORE TRUNCATE ON :schema.%I FOR EACH STATEMENT '
                    'EXECUTE FUNCTION :schema.refuse(%L)', v_table || '_are_not_emptied', v_name, v_table
                );
            END IF;
        END LOOP;
    END LOOP;
END $$;
REVOKE ALL ON FUNCTION :schema.add_partitions(bigint) FROM PUBLIC;
SELECT :schema.add_partitions(0);

-- Of a store that is copied elsewhere every table has a trigger that says where it goes: `reenact db copy` makes them.
CREATE FUNCTION :schema.refuse_moved() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'RN002';
END $$;
