"use strict";
/* Follows a run: one event of the server at a time. */
(() => {
  const put = (name, words) => { document.getElementById(`live-${name}`).textContent = words; };
  const list = document.getElementById("live-events");
  let seconds = 0, bytes = 0;
  put("state", "waiting");
  const source = new EventSource(`events${location.search}`);
  source.onmessage = (message) => {
    const event = JSON.parse(message.data);
    const line = document.createElement("li");
    line.textContent = `${new Date(1000 * event.time).toLocaleTimeString()}  ${event.words}`;
    list.append(line);
    if (event.event === "round") {
      seconds += event.seconds;
      bytes += event.bytes;
      put("state", "training");
      put("rounds", event.of ? `${event.round} of ${event.of}` : `${event.round}`);
      put("sites", `${event.sites}`);
      put("seconds", seconds.toFixed(1));
      put("bytes", `${bytes}`);
      put("spent", event.spent === null ? "without noise" : `${(100 * event.spent).toFixed(1)} %`);
      document.getElementById("live-bar").setAttribute("width", 620 * (event.spent ?? 0));
    } else if (event.event === "finished" || event.event === "ended") {
      put("state", event.event);
      source.close();
    } else if (event.event !== "note") {
      put("state", event.event);
    }
  };
})();
