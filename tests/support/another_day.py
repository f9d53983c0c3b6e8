"""python another_day.py DAYS WORDS...: `hedgerow WORDS`, on a machine whose clock is that far off.

Certificates are looked at by OpenSSL, which asks the machine; federation/test_https.py has these.
"""

from __future__ import annotations

import datetime as dt
import sys
import time
from types import SimpleNamespace

from hedgerow.cli.main import entry
from hedgerow.federation import audit_log


def live_on_another_day(away: dt.timedelta) -> None:
    class Wrong(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> dt.datetime:
            return dt.datetime.now(tz) + away

    real = time.time
    time.time = lambda: real() + away.total_seconds()
    audit_log.dt = SimpleNamespace(datetime=Wrong, UTC=dt.UTC)


if __name__ == "__main__":
    live_on_another_day(dt.timedelta(days=int(sys.argv[1])))
    sys.argv = ["hedgerow", *sys.argv[2:]]
    entry()
