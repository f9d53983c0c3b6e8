"""The site's own log: the only place where reasons are written down."""

from __future__ import annotations

import logging

LOG = logging.getLogger("hedgerow.site")
