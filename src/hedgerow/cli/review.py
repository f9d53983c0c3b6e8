"""`hedgerow schema review`: a local page on which a person confirms the schema column by column.

Nothing is confirmed by default: for each part that was read from rows, the person types the value
or names its public source. The page is served on the loopback interface only, under a secret path.
"""

from __future__ import annotations

import datetime
import html
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from hedgerow.cli.schema import OUTCOME, mark_reviewed, shown_feature, shown_outcome
from hedgerow.errors import HedgerowError, ParameterError
from hedgerow.schema.schema import Mark, Schema

LONGEST_BODY = 1 << 20
"""Most bytes of a request; a page sends far fewer."""


class Review:
    """A schema file under review, and the findings from rows."""

    def __init__(self, path: Path, findings: Sequence[Any] = ()) -> None:
        self.path, self.findings = path, {finding.name: finding for finding in findings}
        self._shown = path.read_bytes()
        self.schema = Schema.from_toml(path)

    def confirm(self, answers: Mapping[str, Any], by: str) -> list[str]:
        """Writes what was confirmed; returns what is still open."""
        if not by.strip():
            raise ParameterError("nobody is named; give your name, for every privacy statement.")
        if self.path.read_bytes() != self._shown:
            raise ParameterError(f"{self.path.name} was changed meanwhile; load the page again.")
        self.schema = mark_reviewed(
            self.schema, answers, by.strip(), datetime.date.today().isoformat()
        )
        self.path.write_text(self.schema.to_toml(), encoding="utf-8")
        self._shown = self.path.read_bytes()
        return self.schema.unconfirmed

    def page(self) -> str:
        parts = [(f.name, f.name, shown_feature(f), f.mark) for f in self.schema.features]
        shown, mark = shown_outcome(self.schema)
        parts += [(OUTCOME, "the outcome", shown, mark)] if shown else []
        cards = "".join(_card(*part, self.findings.get(part[0])) for part in parts)
        notes = "".join(
            f"<li>{_text(f.name)}: {_text('; '.join(f.reasons))}</li>"
            for f in self.findings.values()
            if f.feature is None
        )
        cards += f"<h2>Left out</h2><ul>{notes}</ul>" if notes else ""
        return PAGE.replace("@NAME@", _text(self.path.name)).replace("@CARDS@", cards)


def _card(key: str, name: str, shown: str, mark: Mark | None, finding: Any) -> str:
    lines = [] if finding is None else [finding.seen, *finding.reasons]
    seen = "".join(f"<li>{_text(line)}</li>" for line in lines)
    seen = f"<ul>{seen}</ul>" if seen else ""
    head = f"<h2>{_text(name)}</h2><p>Proposed: <strong>{_text(shown)}</strong></p>{seen}"
    if mark is None or not mark.is_open:
        who = f"confirmed by {mark.confirmed_by}, {mark.confirmed_on}" if mark else "declared"
        return f'<section class="done">{head}<p>{_text(who)}</p></section>'
    take = ""
    if finding is not None and finding.source:
        words = _text(finding.source)
        take = f'<button type="button" data-source="{words}">Name this source: {words}</button>'
    return (
        f'<section data-key="{_text(key)}">{head}'
        f"<label>Value, typed as it is known without the rows"
        f'<input name="value" autocomplete="off"></label>'
        f'<label>or the source by which anybody may know it<input name="source"></label>{take}'
        "</section>"
    )


def _text(text: object) -> str:
    return html.escape(str(text))


class ReviewServer(ThreadingHTTPServer):
    """Serves one review on the loopback interface until it is shut down."""

    def __init__(self, review: Review, on_confirm: Callable[[list[str]], None]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.review, self.on_confirm = review, on_confirm
        self.secret = secrets.token_urlsafe(16)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{self.secret}/"


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer

    def do_GET(self) -> None:
        if self._is_ours():
            self._send(200, "text/html; charset=utf-8", self.server.review.page())

    def do_POST(self) -> None:
        if not self._is_ours():
            return
        try:
            size = int(self.headers.get("Content-Length") or 0)
            content = json.loads(self.rfile.read(min(size, LONGEST_BODY)))
            left = self.server.review.confirm(content["answers"], str(content["by"]))
        except HedgerowError as error:
            self._send(400, "application/json", json.dumps({"error": str(error)}))
        except (ValueError, LookupError, TypeError, AttributeError):
            self._send(400, "application/json", json.dumps({"error": "this is no answer"}))
        else:
            self._send(200, "application/json", json.dumps({"open": left}))
            self.server.on_confirm(left)

    def _is_ours(self) -> bool:
        is_ours = self.path == f"/{self.server.secret}/"
        if not is_ours:
            self._send(404, "text/plain", "nothing here")
        return is_ours

    def _send(self, code: int, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Security-Policy", HTTP_POLICY)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Logs no requests."""


HTTP_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
)
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Review of @NAME@</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root { color-scheme: light dark; --line: #767676; --soft: #f3f5f2; --ink: #16210f; --go: #2d5a1b;
  --paper: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --line: #8a8f86; --soft: #20261d; --ink: #eef2ea; --go: #9fd383;
    --paper: #12160f; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--ink); background: var(--paper); }
html { background: var(--paper); }
section { border: 1px solid var(--line); border-radius: .5rem; padding: .75rem 1rem;
  margin: 1rem 0; }
section.done { background: var(--soft); }
h2 { font-size: 1.1rem; margin: 0 0 .25rem; } p { margin: .25rem 0; }
ul { margin: .25rem 0; padding-left: 1.25rem; }
label { display: block; margin: .5rem 0 0; }
input { display: block; width: 100%; box-sizing: border-box; font: inherit; padding: .35rem .5rem;
  border: 1px solid var(--line); border-radius: .25rem;
  background: var(--paper); color: var(--ink); }
button { font: inherit; margin: .5rem 0 0; padding: .35rem .75rem; border-radius: .25rem;
  border: 1px solid var(--go); background: var(--paper); color: var(--go); text-align: left; }
#confirm { background: var(--go); color: var(--paper); font-weight: 600; }
#result { min-height: 1.5rem; font-weight: 600; }
</style></head><body><main>
<h1>Review of @NAME@</h1>
<p>A range that rows show is no public fact. For each column below type the value that is known
without the rows (<code>0 110</code>, or <code>north, south</code>), or name the source by which
anybody may know the proposed one. What you leave empty stays open, and a fit with an open column
guarantees nothing.</p>
<form id="form">@CARDS@
<label>Your name, for every privacy statement<input id="by" autocomplete="name"></label>
<button id="confirm" type="submit">Confirm what is filled in</button>
<p id="result" role="status"></p></form></main>
<script>
const form = document.getElementById("form");
form.addEventListener("click", (event) => {
  const source = event.target.dataset.source;
  if (source) event.target.closest("section").querySelector("[name=source]").value = source;
});
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.tagName === "INPUT") event.preventDefault();
});
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const text = (one, name) => one.querySelector(`[name=${name}]`).value;
  const asked = [...document.querySelectorAll("section[data-key]")];
  const answers = Object.fromEntries(asked.map((one) => [
    one.dataset.key, { value: text(one, "value"), source: text(one, "source") }]));
  const by = document.getElementById("by").value;
  const reply = await fetch("", { method: "POST", body: JSON.stringify({ answers, by }) });
  const said = await reply.json(), result = document.getElementById("result");
  if (said.error) { result.textContent = said.error; return; }
  if (said.open.length === 0) result.textContent = "All confirmed; you may close this page.";
  else location.reload();
});
</script></body></html>
"""
