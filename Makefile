# Everything works from a clean clone with nothing but Python (3.11 or newer), git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
# A witness that others wrote, for ours to be held against. It asks for Python 3.12 and runs with 3.11; where it cannot be
# had, its tests are skipped.
OTHER_WITNESS := aics-witness==0.1.0 aics-tlog==0.2.1

BOTH_ENGINES := $(wildcard tests/store/test_contract*.py) $(addprefix tests/,runtime replay record crash verify \
	stateful/test_store_machine_on_postgres.py cli/commands/test_every_engine.py)

.PHONY: help setup demo test test-postgres lint bench bench-postgres soak torture fuzz clean
help:            ## list the targets
	@grep -E '^[a-z-]+: .*##|^[a-z-]+:  +##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

$(VENV)/.stamp: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Reenact needs Python 3.11 or newer; set PYTHON=/path/to/python3" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all,dev]'
	-@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-requires-python $(OTHER_WITNESS)
	@touch $@

setup: $(VENV)/.stamp   ## create the virtual environment

demo: setup      ## run, kill -9, recover, replay, export, verify, tamper: no network, no key
	@$(BIN)/reenact demo

# Tests start a thousand interpreters: where no byte code may be written (PYTHONDONTWRITEBYTECODE), each would compile all anew.
test: setup      ## all tests
	@$(BIN)/python -m compileall -q -x tests/lint/samples src tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

test-postgres: setup  ## every test of a suite that runs on both engines, on PostgreSQL; POOLER=1 behind a transaction pooler
	REENACT_TEST_ENGINES=postgres REENACT_TEST_POOLER=$(POOLER) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(BOTH_ENGINES)

# Ours, on ourselves: what decides may not even be in doubt.
DECIDES := $(addprefix src/reenact/,contracts journal policy replay/compare)

lint: setup      ## ruff and mypy, strict; reenact lint on our own source
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/reenact lint --fail-on warning $(DECIDES)
	@told=$$($(BIN)/reenact lint --fail-on error src/reenact) || { echo "$$told" | grep -v '\[warning\]'; exit 1; }

bench: setup     ## speed and size guards, as ratios within one run
	$(BIN)/python -m benchmarks

bench-postgres: setup   ## the store in PostgreSQL: beside DBOS, far away, and with ten million runs (15 GB in /tmp)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	$(BIN)/python -m benchmarks postgres
	$(BIN)/python -m benchmarks.postgres.large $(RUNS)

soak: setup      ## random plans and sessions under kill -9; SOAK_KILLS, SOAK_SEED
	$(BIN)/python -m tests.soak

torture: setup   ## every campaign in its long form, or SHARE=1/4 of the drawn ones; TORTURE_SEED, TORTURE_KILLS, HISTORIES, SCHEDULES, TORTURE_SIGNALS, TORTURE_SESSIONS, TORTURE_SECRETS, FORGERIES, CELLS, TAMPERINGS
	$(BIN)/python -m tests.torture
	$(BIN)/python -m tests.soak.loop_campaign $(or $(TORTURE_KILLS),1000) $(TORTURE_SEED)
	$(BIN)/python -m tests.soak.histories $(or $(HISTORIES),10000) $(TORTURE_SEED)
	$(BIN)/python -m tests.simulation $(or $(SCHEDULES),100000) $(TORTURE_SEED)
	$(BIN)/python -m tests.crash.going_on
	KILL_EVERY=7 $(BIN)/python -m pytest -q -s tests/record/archive tests/store/copying -k killed
	LOST_REPEATS=25 $(BIN)/python -m pytest -q tests/runtime/call/test_lost_answers.py -k four_processes
	$(BIN)/python -m tests.soak.signals $(or $(TORTURE_SIGNALS),5000) $(TORTURE_SEED)
	ulimit -n 256 && $(BIN)/python -m tests.soak.many_sessions $(or $(TORTURE_SESSIONS),10000) $(or $(TORTURE_SESSIONS),10000)
	$(BIN)/python -m tests.attacks.planted_secrets $(or $(TORTURE_SECRETS),200) $(TORTURE_SEED)
	$(BIN)/python -m tests.attacks.forgeries $(or $(FORGERIES),1500) $(TORTURE_SEED)
	$(BIN)/python -m tests.tampering
	$(BIN)/python -m tests.trace.million
	$(BIN)/python -m benchmarks.large_log
	SANDBOXES=all $(BIN)/python -m pytest -q -n 0 tests/attacks/sandbox
	$(BIN)/python -m tests.second_verifier.campaign $(or $(TAMPERINGS),20000) $(TORTURE_SEED)
	$(BIN)/python -m tests.attacks.cells $(or $(CELLS),0) $(TORTURE_SEED)
	LOST_STEP=1 $(BIN)/python -m pytest -q -s -n 0 tests/store/postgres/test_lost_replies.py tests/store/postgres/test_lost_replies_once.py
	HALVES_EVERY=1 HALVES_PROCESSES=8 $(BIN)/python -m pytest -q -s -n 0 tests/store/postgres/halves
	SILENCE_REAL=1 $(BIN)/python -m pytest -q -n 0 tests/store/postgres/trouble/test_silence.py
	CROWD_RUNS=$(or $(CROWD_RUNS),60) $(BIN)/python -m pytest -q -s -n 0 tests/crash/test_crowd_on_postgres.py
	CROWD_POOLED=1 CROWD_RUNS=$(or $(CROWD_RUNS),60) $(BIN)/python -m pytest -q -s -n 0 tests/crash/test_crowd_on_postgres.py

fuzz: setup      ## every parser, pattern and decoder, with 512 MB and 2 s per input; FUZZ_SECONDS per target, FUZZ_SEED, SHARE=1/4
	$(BIN)/python -m tests.fuzz.campaign

clean:           ## remove what the other targets made
	rm -rf $(VENV) .venv-3.* .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist src/*.egg-info
