"""Asks the site's own service, `hedgerow site serve`; its owner says where that listens."""

from hedgerow.federation.transports.flower_app import client_app as app

__all__ = ["app"]
