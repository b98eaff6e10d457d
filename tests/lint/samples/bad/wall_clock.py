"""The wall clock in all its spellings."""
import datetime
import time
from datetime import date, datetime as dt, timezone
from time import time as now


def reads():
    a = time.time()  # expect: RN203
    b = now()  # expect: RN203
    c = datetime.datetime.now(datetime.timezone.utc)  # expect: RN203
    d = dt.utcnow()  # expect: RN203
    e = dt.now(timezone.utc).isoformat()  # expect: RN203
    f = date.today()  # expect: RN203
    g = time.time_ns()  # expect: RN203
    h = time.strftime("%Y")  # expect: RN203
    i = time.localtime()  # expect: RN203
    return a, b, c, d, e, f, g, h, i


def default(when=time.time()):  # expect: RN203
    return when
