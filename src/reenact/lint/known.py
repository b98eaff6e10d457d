"""What the analysis knows about Python's library: where chance comes in, and what a call does with its arguments."""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Hazard(NamedTuple):
    """Why a name must not be used. `needs`: it is a hazard only when called with fewer arguments than this."""

    rule: str
    what: str
    needs: int = 0


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_RANDOM: Final = (
    "random randint randrange choice choices sample shuffle uniform gauss normalvariate betavariate expovariate "
    "triangular getrandbits randbytes lognormvariate vonmisesvariate gammavariate paretovariate weibullvariate "
    "binomialvariate"
)
_NUMPY: Final = (
    "rand randn randint random random_sample ranf sample choice shuffle permutation uniform normal standard_normal "
    "poisson binomial exponential beta gamma bytes random_integers"
)
# Names of the library that bring in chance: the rule, what is said, the module, its names.
_HAZARDS: Final = (
    ("RN201", "draws from an unseeded generator", "random", _RANDOM),
    ("RN201", "draws from an unseeded generator", "numpy.random", _NUMPY),
    ("RN201", "draws from the operating system, which no seed repeats", "random", "SystemRandom"),
    ("RN202", "draws from the operating system", "os", "urandom getrandom"),
    ("RN202", "draws from the operating system", "secrets", "token_bytes token_hex token_urlsafe choice randbelow"),
    ("RN202", "draws from the operating system", "secrets", "randbits SystemRandom"),
    ("RN202", "makes an id that differs on every run", "uuid", "uuid1 uuid4 uuid6 uuid7 uuid8"),
    ("RN203", "reads the wall clock", "time", "time time_ns"),
    ("RN203", "reads the wall clock", "datetime", "datetime.now datetime.utcnow datetime.today date.today"),
    ("RN204", "is salted per process", "builtins", "hash"),
    ("RN205", "is an address in this process", "builtins", "id"),
    ("RN209", "reads the environment", "os", "getenv getenvb environ.get environ.pop environ.setdefault"),
    ("RN210", "is this process's number", "os", "getpid getppid"),
    ("RN210", "is the working directory", "os", "getcwd"),
    ("RN210", "is the working directory", "pathlib", "Path.cwd"),
    ("RN210", "is this user's home", "pathlib", "Path.home"),
    ("RN210", "is this user's name", "os", "getlogin"),
    ("RN210", "is this user's name", "getpass", "getuser"),
    ("RN210", "is this machine's name", "socket", "gethostname getfqdn"),
    ("RN210", "is this machine's name", "platform", "node"),
    ("RN210", "is this machine's name", "os", "uname"),
    ("RN210", "is this machine's address", "uuid", "getnode"),
    ("RN210", "is this machine's size", "os", "cpu_count"),
    ("RN210", "is this machine's size", "multiprocessing", "cpu_count"),
    ("RN210", "is this machine's load", "os", "getloadavg"),
    ("RN210", "is this thread's number", "threading", "get_ident get_native_id"),
)

# Hazards wherever they are used, called or handed on.
ALWAYS: Final = {
    f"{module}.{name}": Hazard(rule, what) for rule, what, module, names in _HAZARDS for name in names.split()
}
# Hazards only when they are called without the argument that would make them repeatable.
WITHOUT_ARGUMENT: Final = {
    **dict.fromkeys(
        ("random.Random", "numpy.random.default_rng", "numpy.random.RandomState"),
        Hazard("RN201", "makes a generator without a seed", needs=1),
    ),
    **dict.fromkeys(("random.seed", "numpy.random.seed"), Hazard("RN201", "seeds from the operating system", needs=1)),
    **dict.fromkeys(
        ("time.localtime", "time.gmtime", "time.ctime", "time.asctime"), Hazard("RN203", "reads the wall clock", 1)
    ),
    "time.strftime": Hazard("RN203", "reads the wall clock", needs=2),
}

# What gives its results in an order that nobody promises, by the last part of its name.
UNORDERED: Final = {
    **dict.fromkeys(("listdir", "scandir", "iterdir"), ("RN207", "lists a directory")),
    **dict.fromkeys(("glob", "iglob", "rglob"), ("RN207", "lists files")),
    **dict.fromkeys(("as_completed", "imap_unordered"), ("RN208", "gives results as they come")),
}

# Calls for whose result the order of the arguments plays no part.
FORGET_ORDER: Final = frozenset(
    {"builtins.sum", "builtins.bool", "builtins.id", "collections.Counter", "math.fsum", "math.prod", "asyncio.gather",
     "statistics.mean", "statistics.median", "typing.cast"}
)  # fmt: skip

# Classes of the library whose objects are, for our purpose, the text or number that they were made from.
SCALARS: Final = _words("decimal.Decimal fractions.Fraction pathlib.Path pathlib.PurePath uuid.UUID datetime.timedelta")

# Methods whose result is made from their arguments, whatever object they belong to.
PURE_METHODS: Final = _words(
    "match search fullmatch findall finditer sub subn fromisoformat fromtimestamp strptime loads decode encode format "
    "replace format_map parse"
)

# Types that say nothing about what fields mean, and types whose fields are an outcome's.
VAGUE_TYPES: Final = _words(
    "Any object Mapping MutableMapping dict Dict JSON JsonValue JSONObject TypedDict SimpleNamespace Namespace "
    "defaultdict OrderedDict Self"
)
OUTCOME_TYPE: Final = re.compile(r"\w*Outcome\Z")
MAYBE_OUTCOME_TYPE: Final = re.compile(
    r"\w*(Result|Response|Observability|Details|SideEffect|Effect|Attempt)\Z|[A-Z]\d?\Z"
)
OUTCOME_NAME: Final = re.compile(r"(?:\w*_)?outcome\Z")
OUTCOMES_NAME: Final = re.compile(r"(?:\w*_)?outcomes\Z")
SESSION_NAME: Final = re.compile(r"(?:\w*_)?session\Z")
SET_TYPES: Final = _words("set frozenset Set FrozenSet AbstractSet MutableSet")
SEQUENCE_TYPES: Final = _words(
    "list List tuple Tuple Sequence MutableSequence Iterable Iterator Collection Generator AsyncIterator AsyncIterable "
    "AsyncGenerator deque Reversible Awaitable Coroutine"
)
MAPPING_TYPES: Final = _words("dict Dict Mapping MutableMapping defaultdict OrderedDict ChainMap Counter")
TRANSPARENT_TYPES: Final = _words("Optional Union Final ClassVar Required NotRequired ReadOnly")
GENERIC_TYPES: Final = SET_TYPES | SEQUENCE_TYPES | MAPPING_TYPES | TRANSPARENT_TYPES

# Calls that only tell people: what goes in changes no behaviour.
LOG_METHODS: Final = _words("debug info warning warn error exception critical fatal log trace success notice print")
LOG_RECEIVER: Final = re.compile(r"(?i)(?:\w*_)?(?:log|logger|logging|console|structlog|audit_log)\Z")
TELEMETRY_METHODS: Final = _words(
    "set_attribute set_attributes add_event record_exception observe set_status labels breadcrumb add_breadcrumb"
)
LOG_FUNCTIONS: Final = frozenset(
    {"builtins.print", "warnings.warn", "pprint.pprint", "rich.print", "traceback.print_exc", "typer.echo",
     "click.echo", "sys.stderr.write", "sys.stdout.write", "logging.log"}
    | {f"logging.{name}" for name in ("debug", "info", "warning", "error", "exception", "critical")}
)  # fmt: skip
