"""What happens around a store, call by call: `python -m tests.torture [SWEEP …] [--short]`, in `make torture`.

faults      every system call on a store's files: killed before and after it, torn, refused (EIO, ENOSPC, once and for
            good), a signal in it; the database, its log or its index unlinked                        `faults.py`
power       power lost after every call: what was synced, and prefixes and subsets of the sectors that were not
                                                                                                      `power.py`
frozen      a writer stopped in every call of its commits, and what a second process is told          `frozen.py`
restores    the store put back as it was after every commit, and gone on                              `restores.py`
keys        the signing key deleted after every commit: held, put back, replaced; a forged rotation   `lost_keys.py`

`shim.c` stands between the process and the system, `shim.py` builds and arms it; `box.py` is a store beside a ledger
that the tool itself keeps, and processes that are forked onto it; `scenes.py` is what is done to it: a plan, a session,
a recovery, a migration, an export, a rotation, a replacement, each with how it goes on and what has to hold then.

TORTURE_SEED makes it another campaign, SHARE=1/4 takes every fourth case. A case is known by its name alone:
`python -m tests.torture faults --only plan:kill:17` runs it again and keeps its folder.
"""
