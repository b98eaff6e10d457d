-- INSERT OR REPLACE takes a row out without asking the guards against DELETE, unless the connection says otherwise: so
-- no row of evidence is put in the place of another. A key that is there already may be said again.
CREATE TRIGGER commits_are_not_replaced BEFORE INSERT ON commits
WHEN EXISTS (SELECT 1 FROM commits WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'commits are append-only'); END;
CREATE TRIGGER payloads_are_not_replaced BEFORE INSERT ON payloads
WHEN EXISTS (SELECT 1 FROM payloads WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'payloads may be erased, never changed'); END;
CREATE TRIGGER erasures_are_not_replaced BEFORE INSERT ON erasures
WHEN EXISTS (SELECT 1 FROM erasures WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'erasures are append-only'); END;
CREATE TRIGGER late_effects_are_not_replaced BEFORE INSERT ON late_effects
WHEN EXISTS (SELECT 1 FROM late_effects WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'late effects are append-only'); END;
CREATE TRIGGER keys_are_not_replaced BEFORE INSERT ON keys
WHEN EXISTS (SELECT 1 FROM keys WHERE kid = NEW.kid AND public_key IS NOT NEW.public_key)
BEGIN SELECT RAISE(ABORT, 'keys are append-only'); END;
