"use strict";
/* The model in the page: it shows any tree and says why. Numbers come from the block #model. */
(() => {
  const model = JSON.parse(document.getElementById("model").textContent);
  const byId = (id) => document.getElementById(id);
  const make = (name, attributes = {}, ...inside) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...inside);
    return element;
  };

  /* ------------------------------------------------------------------ numbers as Python writes them */
  const general = (x, digits) => {
    if (x === 0) return "0";
    const [mantissa, exponent] = x.toExponential(digits - 1).split("e");
    const power = Number(exponent);
    if (power < -4 || power >= digits) {
      const short = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
      return `${short}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
    }
    const fixed = Number(`${mantissa}e${power}`).toFixed(Math.max(0, digits - 1 - power));
    return fixed.includes(".") ? fixed.replace(/\.?0+$/, "") : fixed;
  };
  const signed = (x) => (x < 0 ? "" : "+") + general(x, 2);
  const whole = (x) => { /* halves go to the even number */
    const near = Math.round(x);
    return String(Math.abs(x % 1) === 0.5 && near % 2 !== 0 ? near - 1 : near);
  };
  const percent = (p) => `${whole(100 * p)}%`;

  /* ---------------------------------------------------------------------------------- values to cells */
  const cellOf = (column, text) => {
    const missing = column.kind === "numeric"
      ? column.edges.length + 1
      : column.values.length + (column.other ? 1 : 0);
    if (text.trim() === "") return missing;
    if (column.kind !== "numeric") return Number(text);
    const number = Number(text.trim().replace(",", "."));
    if (Number.isNaN(number)) return null;
    let cell = 0;
    while (cell < column.edges.length && number >= column.edges[cell]) cell += 1;
    return cell;
  };
  const isYes = (question, cells) => {
    const [column, bits] = question;
    const digit = bits[bits.length - 1 - (cells[column] >> 2)];
    return digit !== undefined && ((parseInt(digit, 16) >> (cells[column] & 3)) & 1) === 1;
  };

  /* -------------------------------------------------------------------------- trees from preorder lists */
  const grown = (nodes, rows) => {
    let at = 0, leaf = 0;
    const next = () => {
      const entry = nodes[at++];
      if (Array.isArray(entry)) {
        const mass = rows ? rows[leaf] : 1;
        return { values: entry, mean: entry, mass, leaf: leaf++ };
      }
      const node = { question: model.questions[entry], yes: next(), no: next() };
      node.mass = node.yes.mass + node.no.mass;
      const part = rows && node.mass > 0 ? node.yes.mass / node.mass : node.question[4];
      node.mean = node.yes.mean.map((y, k) => part * y + (1 - part) * node.no.mean[k]);
      return node;
    };
    return next();
  };
  const trees = model.trees.map((nodes, t) => grown(nodes, model.rows ? model.rows[t] : null));
  const curves = model.curves.map((nodes) => grown(nodes, null));
  const others = trees.filter((_, t) => !model.pairs[t].length); /* trees that are no surfaces */
  const pairs = [...new Set(model.pairs.filter((pair) => pair.length).map(String))];
  const names = [...model.columns.map((column) => column.name),
    ...pairs.map((pair) => pair.split(",").map((j) => model.columns[j].name).join(" with "))];
  const plus = (a, b) => a.map((x, k) => x + b[k]);
  const minus = (a, b) => a.map((x, k) => x - b[k]);

  const linked = (sums) => {
    if (model.link === "SIGMOID") {
      const p = 1 / (1 + Math.exp(-Math.min(Math.max(sums[0], -30), 30)));
      return [1 - p, p];
    }
    if (model.link === "SOFTMAX") {
      const top = Math.max(...sums);
      const parts = sums.map((s) => Math.exp(s - top));
      const all = parts.reduce((a, b) => a + b);
      return parts.map((part) => part / all);
    }
    return sums;
  };

  /* The sum of a record, and what each column moved: as hedgerow.explain works it out. */
  const taken = (cells) => {
    const moved = names.map(() => model.base.map(() => 0));
    let sums = model.base, usual = model.base;
    curves.forEach((root, k) => {
      let node = root;
      while (node.question) node = isYes(node.question, cells) ? node.yes : node.no;
      const column = model.curve_columns[k];
      sums = plus(sums, node.values);
      usual = plus(usual, model.curve_means[k]);
      moved[column] = plus(moved[column], minus(node.values, model.curve_means[k]));
    });
    trees.forEach((root, t) => {
      let node = root;
      const pair = pairs.indexOf(String(model.pairs[t]));
      if (pair < 0) usual = plus(usual, root.mean); /* surfaces are about zero on average */
      while (node.question) {
        const below = isYes(node.question, cells) ? node.yes : node.no;
        const column = node.question[0];
        if (pair < 0) moved[column] = plus(moved[column], minus(below.mean, node.mean));
        node = below;
      }
      if (pair >= 0) moved[model.columns.length + pair] = node.values;
      sums = plus(sums, node.values);
      if (model.clip) sums = sums.map((s) => Math.min(Math.max(s, model.clip[0]), model.clip[1]));
    });
    return { said: linked(sums), usual: linked(usual), moved };
  };
  const towards = (moved, winner) => moved.map((values) => {
    if (model.link === "SIGMOID") return winner === 1 ? values[0] : -values[0];
    if (values.length === 1) return values[0];
    const others = values.filter((_, k) => k !== winner);
    return values[winner] - others.reduce((a, b) => a + b) / others.length;
  });

  /* ------------------------------------------------------------------------------------------ the tree */
  const largest = Math.max(1e-12, ...others.flatMap((root) => {
    const found = [];
    const visit = (node) => node.question ? (visit(node.yes), visit(node.no))
      : found.push(...node.values.map(Math.abs));
    visit(root);
    return found;
  }));
  const bar = (parts) => {
    const box = make("span", { class: "bar", "aria-hidden": "true" });
    parts.forEach((part, k) => {
      const width = `flex-basis:${(100 * Math.max(part, 0)).toFixed(2)}%`;
      box.append(make("span", { class: `part k${Math.min(k, 6)}`, style: width }));
    });
    return box;
  };
  const swing = (value) => {
    const half = (50 * Math.min(Math.abs(value) / largest, 1)).toFixed(1);
    const side = value < 0 ? `right:50%;width:${half}%` : `left:50%;width:${half}%`;
    return make("span", { class: "swing", "aria-hidden": "true" },
      make("span", { class: value < 0 ? "down" : "up", style: side }));
  };
  const counts = (leaves) => {
    const rows = leaves.reduce((sum, leaf) => sum + leaf.rows, 0);
    const spread = Math.sqrt(leaves.reduce((sum, leaf) => sum + leaf.spread ** 2, 0));
    return { rows, spread };
  };
  const below = (node) => node.question ? [...below(node.yes), ...below(node.no)] : [node];
  const described = (node) => {
    const leaves = model.leaves ? below(node).map((one) => model.leaves[one.leaf]) : null;
    const line = make("span", { class: "said" });
    if (!leaves) {
      const values = node.question ? node.mean : node.values;
      const best = values.indexOf(Math.max(...values));
      const name = model.classes && values.length > 1 ? `${model.classes[best]} ` : "";
      const value = values.length > 1 ? values[best] : values[0];
      line.append(swing(value), make("span", { class: "value" }, `${name}${signed(value)}`));
      return line;
    }
    const { rows, spread } = counts(leaves);
    const count = `${whole(rows)} ± ${whole(spread)} records`;
    if (!model.classes) {
      const value = node.question ? node.mean[0] : node.values[0];
      const noise = node.question ? "" : ` ± ${general(leaves[0].noise, 2)}`;
      line.append(make("span", { class: "value" }, `${general(value, 4)}${noise}`));
    } else if (node.question) {
      line.append(bar(node.mean));
    } else {
      const leaf = leaves[0], best = node.values.indexOf(Math.max(...node.values));
      const mark = leaf.sure ? "" : " ?";
      line.append(bar(node.values));
      line.append(make("span", { class: "value" },
        `${model.classes[best]} ${percent(node.values[best])}${mark}`));
      if (!leaf.sure) line.classList.add("unsure");
    }
    line.append(make("span", { class: "count" }, count));
    const low = Math.max(rows - spread, 0).toFixed(0), high = (rows + spread).toFixed(0);
    const shares = model.classes
      ? ` ${model.classes.map((name, k) => `${name} ${(100 * node.mean[k]).toFixed(1)} %`).join(", ")}.` : "";
    line.append(make("span", { class: "tip" },
      `With a chance of 95 % between ${low} and ${high} records: the number carries noise.${shares}`));
    return line;
  };
  const drawn = (node, words, depth, path) => {
    const label = make("span", { class: "words" }, words);
    if (!node.question) {
      const leaf = make("div", { class: "leaf", tabindex: "0", role: "group", "data-path": path },
        label, described(node));
      leaf.setAttribute("aria-label", `${words}: ${leaf.textContent.slice(words.length)}`);
      return leaf;
    }
    const box = make("details", { "data-path": path }, make("summary", {}, label, described(node)));
    box.open = depth < 3;
    box.append(make("div", { class: "below" },
      drawn(node.yes, node.question[2], depth + 1, `${path}y`),
      drawn(node.no, node.question[3], depth + 1, `${path}n`)));
    return box;
  };
  const site = byId("tree-view");
  const show = (number) => {
    site.replaceChildren(drawn(others[number], "all records", 0, "r"));
  };
  if (site && others.length) {
    show(0);
    const pick = byId("tree-number");
    if (pick) pick.addEventListener("change", () => {
      const number = Math.min(Math.max(Math.round(Number(pick.value)) || 1, 1), others.length);
      pick.value = number;
      show(number - 1);
    });
    const all = (open) => () => site.querySelectorAll("details").forEach((d) => { d.open = open; });
    byId("open-all").addEventListener("click", all(true));
    byId("close-all").addEventListener("click", all(false));
  }
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((d) => { d.open = true; });
  });

  /* ---------------------------------------------------------------------------------------------- why? */
  const marked = (cells) => {
    site?.querySelectorAll(".taken").forEach((element) => element.classList.remove("taken"));
    if (others.length !== 1 || !site) return others.length === 1 ? others[0] : null;
    let node = others[0], path = "r";
    const mark = () => {
      const element = site.querySelector(`[data-path="${path}"]`);
      element.classList.add("taken");
      if (element.tagName === "DETAILS") element.open = true;
    };
    mark();
    while (node.question) {
      const yes = isYes(node.question, cells);
      node = yes ? node.yes : node.no;
      path += yes ? "y" : "n";
      mark();
    }
    return node;
  };
  const chances = (f) => {
    const curve = model.survival;
    let high = 0;
    return [1, ...curve.edges.map((_, k) => {
      const z = Math.log(curve.odds[k]) + curve.center + curve.slopes[k] * (f - curve.center);
      high = Math.max(high, 1 / (1 + Math.exp(-z)));
      return 1 - high;
    })];
  };
  const heading = (said, usual) => {
    if (model.survival) {
      const [own, average] = [said[0], usual[0]].map((f) => percent(chances(f)[model.survival.edges.length]));
      return `no event until ${model.survival.last} with probability ${own} (average: ${average})`;
    }
    if (!model.classes) return `${general(said[0], 4)} (an average record: ${general(usual[0], 4)})`;
    const best = said.indexOf(Math.max(...said));
    const name = model.classes[best];
    return `${name}, with probability ${percent(said[best])} (an average record: ${percent(usual[best])})`;
  };
  const survivalPicture = (score) => {
    const curve = model.survival, last = curve.edges[curve.edges.length - 1];
    const points = (values) => values.map((s, k) =>
      `${(34 + 560 * (k ? curve.edges[k - 1] : 0) / last).toFixed(1)},${(8 + 220 * (1 - s)).toFixed(1)}`);
    const said = chances(score);
    const band = [...points(chances(score - curve.noise)), ...points(chances(score + curve.noise)).reverse()];
    const words = curve.edges.map((t, k) => `until ${general(t, 4)}: ${said[k + 1].toFixed(2)}`).join("; ");
    const picture = make("figure", { id: "why-survival" });
    picture.innerHTML = `<figcaption>No event until a time (up to ${curve.last}), with two deviations of typical noise</figcaption>
      <svg viewBox="0 0 602 250" role="img" aria-label="${words}"><rect class="frame" x="34" y="8" width="560" height="220"/>
      <polygon class="band k0" points="${band.join(" ")}"/><polyline class="curve k0" points="${points(said).join(" ")}"/>
      <text x="30" y="16" text-anchor="end">1</text><text x="30" y="228" text-anchor="end">0</text>
      ${curve.ticks.map((t) => `<text x="${34 + 560 * t / last}" y="246" text-anchor="middle">${t}</text>`).join("")}</svg>`;
    return picture;
  };
  const answer = byId("why-answer");
  const why = () => {
    const cells = [], strange = [];
    model.columns.forEach((column, j) => {
      const field = byId(`field-${j}`);
      const cell = cellOf(column, field.value);
      field.setAttribute("aria-invalid", cell === null ? "true" : "false");
      if (cell === null) strange.push(column.name);
      cells.push(cell);
    });
    if (strange.length) {
      answer.replaceChildren(make("p", {}, `${strange.join(", ")}: not a number; use digits or leave it empty.`));
      return;
    }
    const { said, usual, moved } = taken(cells);
    const best = said.indexOf(Math.max(...said));
    const moves = towards(moved, best);
    const leaf = marked(cells);
    const sentence = model.leaves ? model.leaves[leaf.leaf].sentence : `${heading(said, usual)}.`;
    const parts = [make("p", { class: "lead", id: "why-sentence" }, sentence)];
    if (model.classes) {
      const rows = model.classes.map((name, k) => make("div", { class: "share" },
        make("span", { class: "words" }, name), bar(said.map((p, j) => (j === k ? p : 0))),
        make("span", { class: "value", "data-probability": said[k] }, `${(100 * said[k]).toFixed(1)} %`)));
      parts.push(make("div", { class: "shares" }, ...rows));
    } else {
      parts.push(make("p", { class: "value", "data-probability": said[0] }, `${model.survival ? "risk " : ""}${general(said[0], 6)}`));
    }
    if (model.survival) parts.push(survivalPicture(said[0]));
    if (!model.leaves) {
      const order = moves.map((_, j) => j).filter((j) => moves[j] !== 0)
        .sort((a, b) => Math.abs(moves[b]) - Math.abs(moves[a]) || a - b);
      const top = Math.max(1e-12, ...moves.map(Math.abs));
      const rows = order.map((j) => {
        const width = `width:${(100 * Math.abs(moves[j]) / top).toFixed(1)}%`;
        return make("div", { class: "share" },
          make("span", { class: "words" }, names[j]),
          make("span", { class: "bar", "aria-hidden": "true" },
            make("span", { class: moves[j] < 0 ? "down" : "up", style: width })),
          make("span", { class: "value", "data-move": moves[j], "data-column": j }, signed(moves[j])));
      });
      parts.push(make("h3", {}, "What moved the score"), make("div", { class: "shares" }, ...rows),
        make("p", { class: "small" }, model.unit));
    }
    answer.replaceChildren(...parts);
  };
  /* ----------------------------------------------- in a frame of a notebook sections are tabs, one at a time */
  if (window.parent !== window) {
    const tabs = [...document.querySelectorAll("nav a")].filter((tab) => byId(tab.hash.slice(1)));
    const panels = tabs.map((tab) => byId(tab.hash.slice(1)));
    const select = (k) => tabs.forEach((tab, j) => {
      panels[j].hidden = j !== k;
      tab.setAttribute("aria-selected", j === k);
      tab.tabIndex = j === k ? 0 : -1;
    });
    tabs[0].closest("ul").setAttribute("role", "tablist");
    tabs.forEach((tab, k) => {
      tab.parentElement.setAttribute("role", "presentation");
      tab.setAttribute("role", "tab");
      panels[k].setAttribute("role", "tabpanel");
      tab.addEventListener("click", (event) => { event.preventDefault(); select(k); });
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const next = (k + step + tabs.length) % tabs.length;
        select(next);
        tabs[next].focus();
      });
    });
    select(0);
  }
  if (!byId("why-form")) return;
  byId("why-form").addEventListener("submit", (event) => { event.preventDefault(); why(); });
  byId("why-form").addEventListener("reset", () => answer.replaceChildren());
})();
