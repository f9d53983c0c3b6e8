"""The coordinator of a study as a ServerApp: begins it, or goes on with it if it was begun.

flwr run . SUPERLINK --run-config 'study="/srv/hedgerow/study"'
"""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from hedgerow.deployment.run import run_study
from hedgerow.deployment.run_folder import RunFolder
from hedgerow.federation.exchange import NamedExchange
from hedgerow.federation.transports.flower import FlowerExchange
from hedgerow.federation.transports.flower_app import SiteGrid

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    folder = RunFolder(Path(str(context.run_config["study"])))
    exchange = NamedExchange(folder.read_study().names, SiteGrid(grid).ask, FlowerExchange.pace)
    model = run_study(folder, exchange, resume=folder.is_begun)
    print(model.privacy_)
