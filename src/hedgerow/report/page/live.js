"use strict";
/* Follows what happens: one event of the server at a time. It puts down what it is told. */
(() => {
  const make = (name, kind, words) => {
    const element = document.createElement(name);
    element.className = kind;
    if (words !== undefined) element.textContent = words;
    return element;
  };
  /* One study of the page: what an event changes of it. */
  const study = (place) => {
    const byId = (id) => document.getElementById(place ? `live-${id}-${place}` : `live-${id}`);
    const list = byId("events"), tree = byId("tree"), below = new Map();
    let isOver = false; // whether the next paths are of another tree; the last one stays until then
    const grow = (path) => {
      let at = tree, key = "";
      for (const words of path) {
        key += `\n${words}`;
        if (!below.has(key)) {
          const node = make("li", "node"), inner = make("ul", "inside");
          node.append(make("span", "question", words), inner);
          at.append(node);
          below.set(key, inner);
        }
        at = below.get(key);
      }
    };
    const siteRow = ([name, site]) => {
      const row = make("tr", `site ${site.state}`), head = make("th", "", name);
      head.scope = "row";
      const seen = site.seen ? new Date(1000 * site.seen).toLocaleTimeString() : "none yet";
      row.append(head, make("td", "", site.state), make("td", "", seen));
      return row;
    };
    return (event) => {
      const sites = Object.entries(event.sites);
      if (sites.length) byId("each-site").replaceChildren(...sites.map(siteRow));
      if (!event.words) return;
      const line = make("li", "event");
      line.append(make("time", "when", new Date(1000 * event.time).toLocaleTimeString()), ` ${event.words}`);
      list.prepend(line);
      for (const [name, words] of Object.entries(event.facts)) byId(name).textContent = words;
      const brief = byId("brief");
      if (brief) brief.textContent = `${byId("state").textContent}, rounds: ${byId("rounds").textContent}`;
      if (event.spent !== null) byId("bar").setAttribute("width", 620 * event.spent);
      isOver = isOver || event.is_new_tree;
      if (tree && event.paths.length) {
        tree.previousElementSibling.hidden = true;
        if (isOver) {
          tree.replaceChildren();
          below.clear();
          isOver = false;
        }
        event.paths.forEach(grow);
      }
    };
  };
  const studies = [];
  const source = new EventSource(`events${location.search}`);
  source.onmessage = (message) => {
    const event = JSON.parse(message.data);
    studies[event.place] ??= study(event.place);
    studies[event.place](event);
    if (event.is_last) source.close();
  };
})();
