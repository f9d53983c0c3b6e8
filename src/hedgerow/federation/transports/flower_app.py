"""The Flower app: passes messages from the coordinator to sites and their answers back.

`flwr run` sends this file and `frames.py` to the SuperLink, which runs `server_app`, and to stock
SuperNodes, which run `client_app`; so it imports flwr and the standard library alone. The owner of
a SuperNode, never the app, says which site it is and where the site's own service listens:

    flower-supernode ... --node-config 'site="north" socket="/run/hedgerow/socket"'

`serve_tasks` of `flower.py` replaces `client_app` where a site lets no shipped code run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from .frames import ask_service, connect_unix, receive_named, send_named, send_note

RECORD, SITE, MESSAGE, ANSWER = "hedgerow", "site", "message", "answer"
LONGEST_MESSAGE = 1 << 30
"""Bytes of a message or an answer; its reader has its own limit."""
POLL_SECONDS = 0.1

client_app = ClientApp()
server_app = ServerApp()


@client_app.query()  # type: ignore[untyped-decorator, unused-ignore]
def answer_query(message: Message, context: Context) -> Message:
    return answer_message(
        message, str(context.node_config["site"]), str(context.node_config["socket"])
    )


def answer_message(message: Message, site: str, path: str) -> Message:
    """The service's answer to a message, none if it is absent; to a greeting, the site's name."""
    record = ConfigRecord({SITE: site})
    content = message.content[RECORD].get(MESSAGE)
    if isinstance(content, bytes):
        with suppress(OSError):
            record[ANSWER] = ask_service(path, content, LONGEST_MESSAGE)
    return Message(RecordDict({RECORD: record}), reply_to=message)


@server_app.main()  # type: ignore[untyped-decorator, unused-ignore]
def pass_on(grid: Grid, context: Context) -> None:
    """Passes on exchanges from the coordinator's socket, until it ends or is gone."""
    sites = SiteGrid(grid)
    with connect_unix(str(context.run_config["pipe"])) as pipe:
        send_note(pipe, {"nodes": len(list(grid.get_node_ids()))})
        with suppress(OSError):
            while True:
                note, messages = receive_named(pipe, LONGEST_MESSAGE)
                if not note:
                    return
                send_named(pipe, sites.ask(messages, note["timeout"]))


class SiteGrid:
    """Asks sites by name over Flower's grid: each node is greeted once, and names its site.

    A node that names another site gets messages that are signed, and sealed where they are secret:
    like anyone who carries messages it can withhold an answer, and no more.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._site_of: dict[int, str] = {}

    def ask(self, messages: Mapping[str, bytes], timeout: float) -> dict[str, bytes]:
        """Returns once all have answered, or nobody is left who could within the time."""
        end = time.monotonic() + timeout
        answers: dict[str, bytes] = {}
        pending: dict[str, tuple[int, str | None]] = {}
        greetings: set[int] = set()
        left = set(messages)
        while (left or pending) and (seconds := end - time.monotonic()) > 0:
            if left:
                here = set(self._grid.get_node_ids())
                strangers = here - set(self._site_of) - greetings
                sites = {n: s for n, s in self._site_of.items() if n in here and s in left}
                pending |= self._push(dict.fromkeys(strangers), messages, seconds)
                pending |= self._push(sites, messages, seconds)
                greetings |= strangers
                left -= set(sites.values())
            for site, record in self._pull(pending):
                answer = record.get(ANSWER)
                if site is not None and isinstance(answer, bytes):
                    answers[site] = answer
            if set(answers) == set(messages):
                break
            time.sleep(POLL_SECONDS)
        return answers

    def _push(
        self, nodes: Mapping[int, str | None], messages: Mapping[str, bytes], seconds: float
    ) -> dict[str, tuple[int, str | None]]:
        """Sends a greeting to nodes without a site, and to others the message for their site."""
        if not nodes:
            return {}
        records = [ConfigRecord({MESSAGE: messages[s]} if s else {}) for s in nodes.values()]
        requests = [
            Message(
                RecordDict({RECORD: record}),
                dst_node_id=node,
                message_type=MessageType.QUERY,
                ttl=max(1.0, seconds),
            )
            for node, record in zip(nodes, records, strict=True)
        ]
        ids = self._grid.push_messages(requests)
        return {id: pair for id, pair in zip(ids, nodes.items(), strict=True) if id}

    def _pull(
        self, pending: dict[str, tuple[int, str | None]]
    ) -> Iterator[tuple[str | None, ConfigRecord]]:
        """Replies, each with the site that was asked; an error counts as silence."""
        for reply in self._grid.pull_messages(list(pending)):
            node, site = pending.pop(reply.metadata.reply_to_message_id, (0, None))
            if node and reply.has_content() and RECORD in reply.content:
                record = reply.content[RECORD]
                self._site_of[node] = str(record.get(SITE))
                yield site, record
