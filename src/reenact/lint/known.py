"""What the analysis knows about Python's library: where chance comes in, and what a call does with its arguments."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Hazard(NamedTuple):
    """Why a name must not be used."""

    rule: str
    what: str


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Names of the library that bring in chance, called or handed on.
_HAZARDS: Final = (
    ("RN201", "draws from the operating system, which no seed repeats", "random.SystemRandom"),
    ("RN202", "draws from the operating system", "os.urandom os.getrandom"),
    ("RN202", "makes an id that differs on every run", "uuid.uuid1 uuid.uuid4 uuid.uuid6 uuid.uuid7 uuid.uuid8"),
    ("RN203", "reads the wall clock", "time.time time.time_ns datetime.datetime.now datetime.datetime.utcnow"),
    ("RN203", "reads the wall clock", "datetime.datetime.today datetime.date.today"),
    ("RN204", "is salted per process", "builtins.hash"),
    ("RN205", "is an address in this process", "builtins.id"),
    ("RN208", "goes on with whatever completes first", "asyncio.FIRST_COMPLETED concurrent.futures.FIRST_COMPLETED"),
    ("RN209", "reads the environment", "os.getenv os.getenvb os.environ.get os.environ.pop os.environ.setdefault"),
    ("RN210", "belongs to this process", "os.getpid os.getppid os.getcwd pathlib.Path.cwd threading.get_ident"),
    ("RN210", "belongs to this user", "pathlib.Path.home os.getlogin getpass.getuser"),
    ("RN210", "belongs to this machine", "socket.gethostname socket.getfqdn platform.node os.uname uuid.getnode"),
    ("RN210", "belongs to this machine", "os.cpu_count multiprocessing.cpu_count os.getloadavg"),
)
_ALWAYS: Final = {name: Hazard(rule, what) for rule, what, names in _HAZARDS for name in names.split()}
# Modules whose every function draws, but those that are named here. Classes take a seed.
_DRAWS: Final = Hazard("RN201", "draws from an unseeded generator")
_DRAWING: Final = {
    "random": (_DRAWS, _words("seed getstate setstate")),
    "numpy.random": (_DRAWS, _words("seed get_state set_state default_rng mtrand bit_generator")),
    "secrets": (Hazard("RN202", "draws from the operating system"), _words("compare_digest")),
}
# Hazards only when they are called with fewer arguments than make them repeatable.
_UNSEEDED: Final = Hazard("RN201", "makes a generator that no seed repeats")
_NOW: Final = Hazard("RN203", "reads the wall clock")
NEEDS_ARGUMENTS: Final = {
    **dict.fromkeys(_words("random.Random numpy.random.default_rng numpy.random.RandomState"), (1, _UNSEEDED)),
    **dict.fromkeys(_words("random.seed numpy.random.seed"), (1, _UNSEEDED)),
    **dict.fromkeys(_words("time.localtime time.gmtime time.ctime"), (1, _NOW)),
    "time.strftime": (2, _NOW),
}


def hazard_of(name: str) -> Hazard | None:
    """Why this name of the library must not be used, wherever it stands."""
    module, _, last = name.rpartition(".")
    if module in _DRAWING and last.islower():
        hazard, harmless = _DRAWING[module]
        return None if last in harmless else hazard
    return _ALWAYS.get(name)


_COMPARES: Final = ("RN102", "compares")
# Calls that go through a collection with a function.
GOES_THROUGH: Final = _words(
    "sort builtins.sorted builtins.min builtins.max builtins.map builtins.filter functools.reduce itertools.groupby "
    "itertools.filterfalse itertools.takewhile itertools.dropwhile heapq.nlargest heapq.nsmallest"
)
# Functions and methods whose answer is a decision about what they are given: the rule, and what they do.
DECIDE: Final = {
    **dict.fromkeys(_words("builtins.any builtins.all"), ("RN101", "branches on")),
    "builtins.range": ("RN101", "loops as often as"),
    **dict.fromkeys(_words("operator.eq operator.ne operator.lt operator.le operator.gt operator.ge"), _COMPARES),
    **dict.fromkeys(_words(".startswith .endswith .isdigit .isalpha .isalnum .isspace .isupper .islower"), _COMPARES),
}
# Functions and methods that give a list in an order that may differ between two runs, and the rule that says so.
SHUFFLE: Final = {
    **dict.fromkeys(_words("os.listdir os.scandir glob.glob glob.iglob .iterdir .rglob .glob"), "RN207"),
    **dict.fromkeys(_words("asyncio.as_completed concurrent.futures.as_completed .imap_unordered"), "RN208"),
}
# Calls for whose result the order of the arguments plays no part.
FORGET_ORDER: Final = _words("builtins.sum builtins.bool collections.Counter math.fsum asyncio.gather statistics.mean")

# Methods whose result is made from their arguments, whatever object they belong to.
PURE_METHODS: Final = _words("match search fullmatch findall sub fromisoformat strptime loads decode format replace")

# Types that say nothing about what fields mean, and types whose fields may be an outcome's.
VAGUE_TYPES: Final = _words("Any object JSON JsonValue JSONObject TypedDict SimpleNamespace Namespace Self")
MAYBE_OUTCOME_TYPE: Final = re.compile(
    r"\w*(Result|Response|Observability|Details|SideEffect|Effect|Attempt)\Z|[A-Z]\d?\Z"
)
SET_TYPES: Final = _words("set frozenset Set FrozenSet AbstractSet MutableSet")
GENERIC_TYPES: Final = _words(
    "list List tuple Tuple Sequence MutableSequence Iterable Iterator Collection Generator AsyncIterator AsyncIterable "
    "AsyncGenerator deque Reversible Awaitable Coroutine dict Dict Mapping MutableMapping defaultdict OrderedDict"
)
TRANSPARENT_TYPES: Final = _words("Optional Union Final ClassVar Required NotRequired ReadOnly")

# Calls that only tell people: what goes in changes no behaviour.
LOG_METHODS: Final = _words("debug info warning warn error exception critical fatal log trace success notice print")
LOG_RECEIVER: Final = re.compile(r"(?i)(?:\w*_)?(?:log|logger|logging|console|structlog|audit_log)\Z")
TELEMETRY_METHODS: Final = _words("set_attribute set_attributes add_event record_exception observe set_status")
LOG_FUNCTIONS: Final = _words(
    "builtins.print warnings.warn pprint.pprint rich.print typer.echo click.echo sys.stderr.write sys.stdout.write"
)
