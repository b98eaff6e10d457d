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


_RANDOM: Final = _words(
    "random randint randrange choice choices sample shuffle uniform gauss normalvariate betavariate expovariate "
    "triangular getrandbits randbytes lognormvariate vonmisesvariate gammavariate paretovariate weibullvariate "
    "binomialvariate"
)
_NUMPY: Final = _words(
    "rand randn randint random random_sample ranf sample choice shuffle permutation uniform normal standard_normal "
    "poisson binomial exponential beta gamma bytes random_integers"
)

_RANDOMNESS: Final = "draws from an unseeded generator"
_CLOCK: Final = "reads the wall clock"

# Names that are a hazard wherever they are used, called or handed on.
ALWAYS: Final[dict[str, Hazard]] = {
    **{f"random.{name}": Hazard("RN201", _RANDOMNESS) for name in _RANDOM},
    **{f"numpy.random.{name}": Hazard("RN201", _RANDOMNESS) for name in _NUMPY},
    "random.SystemRandom": Hazard("RN201", "draws from the operating system, which no seed repeats"),
    "os.urandom": Hazard("RN202", "draws from the operating system"),
    "os.getrandom": Hazard("RN202", "draws from the operating system"),
    **{
        f"secrets.{name}": Hazard("RN202", "draws from the operating system")
        for name in ("token_bytes", "token_hex", "token_urlsafe", "choice", "randbelow", "randbits", "SystemRandom")
    },
    **{f"uuid.uuid{n}": Hazard("RN202", "makes an id that differs on every run") for n in (1, 4, 6, 7, 8)},
    "time.time": Hazard("RN203", _CLOCK),
    "time.time_ns": Hazard("RN203", _CLOCK),
    "datetime.datetime.now": Hazard("RN203", _CLOCK),
    "datetime.datetime.utcnow": Hazard("RN203", _CLOCK),
    "datetime.datetime.today": Hazard("RN203", _CLOCK),
    "datetime.date.today": Hazard("RN203", _CLOCK),
    "builtins.hash": Hazard("RN204", "is salted per process"),
    "builtins.id": Hazard("RN205", "is an address in this process"),
    "os.getenv": Hazard("RN209", "reads the environment"),
    "os.getenvb": Hazard("RN209", "reads the environment"),
    **{
        name: Hazard("RN210", what)
        for name, what in {
            "os.getpid": "is this process's number",
            "os.getppid": "is the parent process's number",
            "os.getcwd": "is the working directory",
            "pathlib.Path.cwd": "is the working directory",
            "pathlib.Path.home": "is this user's home",
            "os.getlogin": "is this user's name",
            "getpass.getuser": "is this user's name",
            "socket.gethostname": "is this machine's name",
            "socket.getfqdn": "is this machine's name",
            "platform.node": "is this machine's name",
            "os.uname": "is this machine's name",
            "uuid.getnode": "is this machine's address",
            "os.cpu_count": "is this machine's size",
            "multiprocessing.cpu_count": "is this machine's size",
            "os.getloadavg": "is this machine's load",
            "threading.get_ident": "is this thread's number",
            "threading.get_native_id": "is this thread's number",
        }.items()
    },
}

# Hazards only when they are called without the argument that would make them repeatable.
WITHOUT_ARGUMENT: Final[dict[str, Hazard]] = {
    "random.Random": Hazard("RN201", "makes a generator without a seed", needs=1),
    "random.seed": Hazard("RN201", "seeds from the operating system", needs=1),
    "numpy.random.default_rng": Hazard("RN201", "makes a generator without a seed", needs=1),
    "numpy.random.RandomState": Hazard("RN201", "makes a generator without a seed", needs=1),
    "numpy.random.seed": Hazard("RN201", "seeds from the operating system", needs=1),
    "time.localtime": Hazard("RN203", _CLOCK, needs=1),
    "time.gmtime": Hazard("RN203", _CLOCK, needs=1),
    "time.ctime": Hazard("RN203", _CLOCK, needs=1),
    "time.asctime": Hazard("RN203", _CLOCK, needs=1),
    "time.strftime": Hazard("RN203", _CLOCK, needs=2),
}

# Calls whose result comes in an order that nobody promises.
LISTINGS: Final = {
    "os.listdir": "lists a directory",
    "os.scandir": "lists a directory",
    "glob.glob": "lists files",
    "glob.iglob": "lists files",
    "pathlib.Path.iterdir": "lists a directory",
    "pathlib.Path.glob": "lists files",
    "pathlib.Path.rglob": "lists files",
}
LISTING_METHODS: Final = {"iterdir": "lists a directory", "rglob": "lists files"}
COMPLETIONS: Final = frozenset({"asyncio.as_completed", "concurrent.futures.as_completed"})
COMPLETION_METHODS: Final = frozenset({"imap_unordered"})
WALKS: Final = frozenset({"os.walk", "os.fwalk", "pathlib.Path.walk"})

# What a call does with the order and the content of its arguments.
ORDERING: Final = frozenset(
    {"builtins.sorted", "builtins.min", "builtins.max", "heapq.nlargest", "heapq.nsmallest", "itertools.groupby",
     "heapq.heappush", "heapq.heappushpop", "heapq.heapreplace", "heapq.heapify", "heapq.merge",
     "bisect.bisect", "bisect.bisect_left", "bisect.bisect_right", "bisect.insort", "bisect.insort_left",
     "bisect.insort_right", "statistics.mode"}
)  # fmt: skip
SHORT_CIRCUIT: Final = frozenset({"builtins.any", "builtins.all"})
KEEP_ORDER: Final = frozenset(
    {"builtins.list", "builtins.tuple", "builtins.iter", "builtins.enumerate", "builtins.reversed", "builtins.zip",
     "builtins.map", "builtins.filter", "itertools.chain", "itertools.islice", "itertools.chain.from_iterable",
     "itertools.filterfalse", "itertools.takewhile", "itertools.dropwhile", "itertools.product", "itertools.starmap",
     "collections.deque", "itertools.pairwise", "itertools.batched", "itertools.accumulate", "itertools.permutations",
     "itertools.combinations"}
)  # fmt: skip
FORGET_ORDER: Final = frozenset(
    {"builtins.sorted", "builtins.set", "builtins.frozenset", "builtins.len", "builtins.sum", "builtins.min",
     "builtins.max", "builtins.any", "builtins.all", "collections.Counter", "builtins.isinstance", "builtins.bool",
     "builtins.type", "math.fsum", "math.prod", "statistics.mean", "statistics.median", "heapq.nlargest",
     "heapq.nsmallest", "asyncio.wait", "asyncio.gather", "concurrent.futures.wait", "builtins.range", "builtins.id",
     "statistics.fmean", "statistics.stdev", "typing.cast", "builtins.hash", "builtins.print", "builtins.repr"}
)  # fmt: skip

# Questions about structure, not about content: their answers are deterministic.
STRUCTURAL: Final = frozenset(
    {"builtins.isinstance", "builtins.issubclass", "builtins.hasattr", "builtins.callable", "builtins.type"}
)

# Calls that hand back their first argument, changed or not, with its fields.
SAME_FIELDS: Final = frozenset(
    {"copy.copy", "copy.deepcopy", "dataclasses.asdict", "dataclasses.astuple", "dataclasses.replace",
     "msgspec.structs.asdict", "msgspec.structs.astuple", "msgspec.structs.replace", "msgspec.to_builtins",
     "builtins.vars", "builtins.dict", "types.MappingProxyType", "msgspec.structs.force_setattr"}
)  # fmt: skip
CASTS: Final = frozenset({"typing.cast", "msgspec.convert"})

# Classes of the library whose objects are, for our purpose, the text or number that they were made from.
SCALARS: Final = frozenset(
    {"decimal.Decimal", "fractions.Fraction", "pathlib.Path", "pathlib.PurePath", "pathlib.PurePosixPath",
     "collections.Counter", "uuid.UUID", "datetime.timedelta"}
)  # fmt: skip

# Methods whose result is made from their arguments, whatever object they belong to.
PURE_METHODS: Final = _words(
    "match search fullmatch findall finditer sub subn fromisoformat fromtimestamp strptime "
    "loads decode encode join format replace format_map parse total_seconds removeprefix removesuffix"
)
# Methods of text that answer a question about it.
TEXT_PREDICATES: Final = _words(
    "startswith endswith isdigit isalpha isalnum isspace isupper islower isnumeric isdecimal isidentifier "
    "__eq__ __ne__ __lt__ __gt__ __le__ __ge__ __contains__"
)

SPLITTING: Final = _words("split rsplit splitlines partition rpartition")
# Methods of sets and dicts that take a key.
KEYED_METHODS: Final = _words("add discard remove get pop setdefault append")

SET_METHODS: Final = _words("union intersection difference symmetric_difference copy __or__ __and__ __sub__ __xor__")

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
TRANSPARENT_TYPES: Final = _words("Optional Union Annotated Final ClassVar Required NotRequired ReadOnly")

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
