"use strict";
(() => {
  let data = JSON.parse(document.getElementById("data").textContent), runs = data.runs;
  // Okabe and Ito's colours, which colour-blind readers tell apart.
  const colours = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#a08c00", "#808080"];
  const colour = (i) => colours[i % colours.length];
  const by = (id) => document.getElementById(id);
  const make = (tag, text, className) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  };
  const bytes = (n) => {
    if (!n) return "";
    const power = Math.min(4, Math.floor(Math.log10(n) / 3));
    return (n / 1000 ** power).toPrecision(3) + " " + ["B", "kB", "MB", "GB", "TB"][power];
  };
  const number = (x) => (x === null || x === undefined ? "" : x.toLocaleString("en", {maximumSignificantDigits: 6}));

  // rows: of cells, the first of them the heads; a cell is text, or {text, className, colour}.
  const longest = 24;  // letters beside other cells
  function fill(table, rows) {
    const parts = (cell) => (typeof cell === "object" && cell !== null ? cell : {text: cell});
    table.replaceChildren();
    rows.forEach((cells, at) => {
      const row = table.insertRow();
      cells.forEach((cell, column) => {
        const of = parts(cell), element = make(at === 0 ? "th" : "td", of.text, of.className);
        if (String(of.text).length > longest) element.classList.add("long");
        if (at > 0 && column > 0) element.dataset.head = parts(rows[0][column]).text;
        if (of.colour) {
          const swatch = make("span", "", "swatch");
          swatch.style.background = of.colour;
          element.prepend(swatch);
        }
        row.append(element);
      });
    });
  }
  function fit() {
    for (const wide of document.querySelectorAll(".wide")) {
      wide.classList.remove("cards");
      wide.classList.toggle("cards", wide.scrollWidth > wide.clientWidth);
    }
  }
  const right = (text) => ({text, className: "number"});

  function tell() {
    by("title").textContent = by("title").title = data.title;
    by("verdict").textContent = data.verdict;
    by("verdict").className = data.same ? "good" : "bad";
    by("runs").hidden = runs.length === 0 || Boolean(data.axis);  // over another axis: one trial, of which the curves say all
    const told = !data.compared && (data.overview || []).length > 0;
    by("overview").hidden = !told;
    by("overview").className = runs.length > 1 ? "" : "facts";
    if (told) fill(by("overview").querySelector("table"), runs.length > 1 ? data.overview : data.overview.slice(1));
    by("runs").hidden ||= told && runs.length === 1;  // of which all is said
    const few = {notation: "compact", maximumSignificantDigits: 3};
    const rate = (run) => (run.throughput ? `${run.throughput.toLocaleString("en", few)} ${run.unit}` : "");
    const best = (run) => {
      const {best} = run.summary || {};
      return best ? `${best.metric} ${Number(best.value.toPrecision(4))} at ${number(best.step)}` : "";
    };
    // How fast each is beside the first is of interest where they are compared.
    const beside = (...cells) => (data.compared ? cells : []);
    fill(by("runs").querySelector("table"), [
         ["run", right("processes"), right("steps"), right("last loss"), right("best"), right("per second"),
          ...beside(right("speed"), right("efficiency")), right("memory a rank"), data.compared ? "loss against the reference" : "device"],
         ...runs.map((run, i) => [
           {text: run.name, colour: colour(i)}, right(run.processes || ""),
           right(run.last_step + (run.finished ? "" : " so far")), right(number(run.last_loss)), right(best(run)), right(rate(run)),
           ...beside(right(runs[0].throughput && run.throughput ? (run.throughput / runs[0].throughput).toFixed(2) + "×" : ""),
                     right(run.efficiency ? Math.round(100 * run.efficiency) + "%" : "")), right(bytes(run.memory)),
           data.compared ? {text: run.verdict, className: run.same ? "" : "bad"} : (run.summary || {}).device || ""])]);
    by("options").hidden = data.differences.length === 0;
    if (data.differences.length > 0)
      fill(by("options").querySelector("table"), [["option", ...runs.map((run) => run.name)], ...data.differences.map(({key, values}) => [key, ...values])]);
  }

  // A sweep: each choice of values is a line through an axis for each key, to its figure; and a row, best first.
  function choices() {
    const sweep = data.sweep;
    by("sweep").hidden = !sweep;
    if (!sweep) return;
    const found = sweep.points.filter((point) => point.figure !== null);
    by("sweep-hint").textContent = `Lines are coloured by ${sweep.figure}, from blue, the best, to grey. Bold: the best.` +
      (runs.length ? ` The curves are those of the best ${runs.length === 1 ? "run" : `${runs.length} runs`}.` : "");
    const numeric = (values) => values.every((value) => value.trim() !== "" && Number.isFinite(Number(value)));
    // Where a value is on its axis, from 0 to 1: by size, of orders of magnitude by their logarithm, and what is no number in turn.
    const scale = (values) => {
      const all = [...new Set(values)];
      if (!numeric(all)) return {place: (value) => (all.length < 2 ? 0.5 : all.indexOf(value) / (all.length - 1)), marks: all};
      const numbers = all.map(Number).sort((a, b) => a - b), [low, high] = [numbers[0], numbers[numbers.length - 1]];
      const size = low > 0 && high >= 10 * low ? Math.log : (x) => x;
      const place = (value) => (high === low ? 0.5 : (size(Number(value)) - size(low)) / (size(high) - size(low)));
      const marks = all.length <= 8 ? all : [...all].sort((a, b) => a - b).filter((_, i, of) => i === 0 || i === of.length - 1);
      return {place, marks};
    };
    const axes = sweep.keys.map((key, i) => ({name: key, value: (point) => point.values[i], ...scale(sweep.points.map((point) => point.values[i]))}));
    const order = [...found].sort((a, b) => (sweep.better === "higher" ? b.figure - a.figure : a.figure - b.figure));
    const rank = new Map(order.map((point, i) => [point, i]));
    axes.push({name: sweep.figure, value: (point) => String(point.figure), ...scale(found.map((point) => String(point.figure)))});
    axes[axes.length - 1].marks = order.length ? [order[0], order[order.length - 1]].map((point) => String(point.figure)) : [];
    const svg = (tag, attributes, parent, text) => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
      if (text !== undefined) element.textContent = text;
      parent.append(element);
      return element;
    };
    by("lines").replaceChildren();
    const width = Math.max(320, Math.min(1160, by("lines").clientWidth || 1000)), height = 300, top = 40, bottom = 20, side = 70;
    const image = svg("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "parallel coordinates"}, by("lines"));
    const x = (i) => side + ((width - 2 * side) * i) / Math.max(1, axes.length - 1);
    const y = (place) => height - bottom - place * (height - top - bottom);
    const share = (point) => (order.length < 2 ? 0 : rank.get(point) / (order.length - 1));
    for (const point of [...order].reverse()) {
      const path = axes.map((axis, i) => `${i ? "L" : "M"}${x(i).toFixed(1)},${y(axis.place(axis.value(point))).toFixed(1)}`).join("");
      const line = svg("path", {d: path, stroke: `color-mix(in srgb, #0072b2, #a0a0a6 ${Math.round(100 * share(point))}%)`,
                                class: rank.get(point) === 0 ? "first" : ""}, image);
      svg("title", {}, line, `${sweep.keys.map((key, i) => `${key} = ${point.values[i]}`).join(", ")}: ${sweep.figure} ${point.shown}`);
    }
    axes.forEach((axis, i) => {
      svg("line", {x1: x(i), x2: x(i), y1: y(0), y2: y(1), class: "axis"}, image);
      const last = i === axes.length - 1;
      svg("text", {x: x(i), y: 16, "text-anchor": i === 0 && !last ? "start" : last ? "end" : "middle"}, image, axis.name);
      for (const mark of axis.marks)
        svg("text", {x: x(i) + (last ? -6 : 6), y: y(axis.place(mark)) - 4, "text-anchor": last ? "end" : "start"}, image,
            numeric([mark]) && mark.length > 8 ? String(Number(Number(mark).toPrecision(4))) : mark);
    });
    fill(by("sweep").querySelector("table"), [
      [...sweep.keys.map(right), right(sweep.figure), "", "state", "folder"],
      ...sweep.points.map((point, i) => [...point.values.map(right), right(point.shown), i === 0 ? "best" : point.near ? "as good, as far as seeds tell" : "",
                                         point.state, point.folder])]);
  }

  // Curves.
  const select = by("figure");
  function offer() {
    const names = new Set(), evaluated = new Set();
    for (const run of runs) {
      Object.keys(run.figures).forEach((name) => names.add(name));
      Object.keys(run.evaluations.figures).forEach((name) => evaluated.add(name));
    }
    const units = {seconds: "s", data_seconds: "s", host_memory: "bytes", device_memory: "bytes"};
    const called = (name) => name.replaceAll("_", " ") + (units[name] ? ` (${units[name]})` : "");
    const options = [
      ...[...names].filter((name) => evaluated.has(name) && name !== "seconds" && name !== "samples")
        .sort((a, b) => (b === "loss") - (a === "loss")).map((name) => ["both " + name, called(name) + ": training and validation"]),
      ...[...names].sort((a, b) => (b === "loss") - (a === "loss")).map((name) => ["train " + name, called(name)]),
      ...[...evaluated].map((name) => ["eval " + name, "evaluation: " + called(name)])];
    const chosen = select.value;
    if (options.length === select.options.length) return;  // it would close under the reader's hand
    select.replaceChildren(...options.map(([value, text]) => new Option(text, value, false, value === chosen)));
  }

  const series = (run, choice) => {
    const [kind, name] = [choice.slice(0, choice.indexOf(" ")), choice.slice(choice.indexOf(" ") + 1)];
    const from = kind === "eval" ? run.evaluations : run;
    // What is not finite comes as text, and is a gap; where there is no value, the line goes on.
    return {steps: from.steps, values: (from.figures[name] || []).map((value) => (typeof value === "string" ? NaN : value))};
  };
  // What is drawn: a curve for each run, or two, of training and of validation.
  function shown(choice) {
    const of = (kind) => runs.map((run, i) => ({...series(run, choice.replace(/^\S+/, kind)), sparse: kind === "eval",
                                                colour: colour(choice.startsWith("both ") && kind === "eval" && runs.length === 1 ? 1 : i),
                                                label: run.name + (kind === "eval" && choice.startsWith("both ") ? ", validation" : "")}));
    return choice.startsWith("both ") ? [...of("train"), ...of("eval")] : of(choice.slice(0, choice.indexOf(" ")));
  }
  // Each value's mean with those of the steps before it, `count` in all.
  const averaged = (values, count) => (count < 2 ? values : values.map((_, i) => {
    const few = values.slice(Math.max(0, i - count + 1), i + 1).filter((value) => value !== null && Number.isFinite(value));
    return few.length === 0 ? NaN : few.reduce((sum, value) => sum + value, 0) / few.length;
  }));
  // One row a step that any of the series has.
  function joined(all) {
    const rows = new Map();
    all.forEach((one, i) => one.steps.forEach((step, at) => {
      if (!rows.has(step)) rows.set(step, new Array(all.length).fill(null));
      rows.get(step)[i] = one.values[at] ?? null;
    }));
    return [...rows.keys()].sort((a, b) => a - b).map((step) => [step, ...rows.get(step)]);
  }
  const style = getComputedStyle(document.documentElement);
  // The curves' own axis, or one of the figures, on a logarithmic scale.
  const axis = (data.axis || "step").replaceAll("_", " ");
  const across = data.axis ? {logscale: true, axisLabelFormatter: (x) => x.toExponential(0), valueFormatter: (x) => x.toExponential(2)} : {};
  // Where curves lie on each other, all of them are seen: an earlier one is wider, and a later one has gaps.
  const common = (all) => ({
    labels: [axis, ...all.map((one) => one.label)],
    colors: all.map((one) => one.colour),
    connectSeparatedPoints: true,
    strokeWidth: 1.6,
    series: Object.fromEntries(all.map((one, i) => [one.label, {
      drawPoints: one.sparse, pointSize: 3,
      strokeWidth: one.sparse ? 2.4 : data.compared && all.length <= 6 ? 1.6 + 1.2 * (all.length - 1 - i) : 1.6,
      strokePattern: data.compared && i > 0 && !one.sparse ? [10, 4 + 3 * (i % 4)] : null}])),
    gridLineColor: style.getPropertyValue("--line"),
    axisLineColor: style.getPropertyValue("--line"),
    axisLabelWidth: 64,
    legend: "always",
    digitsAfterDecimal: 6,
    axes: {x: across, y: {axisLabelFormatter: (y) => (y !== 0 && (Math.abs(y) < 1e-3 || Math.abs(y) >= 1e5) ? y.toExponential(1) : String(Number(y.toPrecision(4))))}},
  });
  let chart = null, difference = null;
  // `kept`: with what the reader has zoomed in on.
  function drawn(before, kept, id, rows, options) {
    if (before && kept) {
      before.updateOptions({file: rows, ...options});
      return before;
    }
    if (before) before.destroy();
    return new Dygraph(by(id), rows, options);
  }
  if (data.axis) {  // the rise at its end would hide the rest
    const values = runs.flatMap((run) => run.figures.loss).filter((value) => typeof value === "number");
    by("log").checked = Math.min(...values) > 0 && Math.max(...values) > 10 * Math.min(...values);
  }
  function draw(kept) {
    by("curves").hidden = select.options.length === 0;
    if (by("curves").hidden) return;
    const choice = select.value, all = shown(choice);
    const sparse = choice.startsWith("eval ");
    const smooth = sparse ? 1 : Number(by("smooth").value);
    by("smooth-steps").textContent = smooth;
    by("smooth").disabled = sparse;
    const rows = joined(all.map((one) => (one.sparse ? one : {...one, values: averaged(one.values, smooth)})));
    chart = drawn(chart, kept, "chart", rows, {...common(all), labelsDiv: by("legend"), logscale: by("log").checked});
    if (data.marks)
      chart.setAnnotations(data.marks.map(({name, curve, at}) =>
        ({series: curve, x: at, shortText: name, text: `${name}: ${at.toExponential(2)}`, cssClass: "mark", width: 90, height: 20, tickHeight: 28})));
    by("difference-part").hidden = !data.compared;
    if (!data.compared) return;
    by("reference").textContent = runs[0].name;
    const mine = all.slice(0, runs.length);
    const apart = joined(mine).map(([step, first, ...rest]) =>
      [step, ...rest.map((value) => (first === null || value === null ? null : Math.abs(value - first) / Math.max(Math.abs(first), 1e-300)))]);
    const options = common(mine.slice(1));
    options.labels[0] = "step";
    difference = drawn(difference, kept, "difference", apart, {...options, legend: "onmouseover"});
  }
  select.onchange = by("log").onchange = () => draw(false);
  by("smooth").oninput = () => draw(true);

  // Time and memory, by rank.
  const parts = {compute: "#009e73", optimizer: "#56b4e9", communication: "#d55e00", ranks: "#cc79a7", data: "#e69f00",
                 device: "#0072b2", evaluation: "#a08c00", checkpoint: "#808080"};
  const told = {compute: "forward and backward", optimizer: "update", communication: "blocked in collectives",
                ranks: "waiting for the slowest rank", data: "waiting for data", device: "waiting for the device",
                evaluation: "evaluation", checkpoint: "checkpoints"};
  function costs() {
    by("bars").replaceChildren();
    const memory = [], driver = runs.some((run) => ((run.summary || {}).ranks || []).some((costs) => costs.driver_memory > 0));
    for (const [i, run] of runs.entries()) {
      for (const [rank, costs] of ((run.summary || {}).ranks || []).entries()) {
        const all = Object.values(costs.seconds).reduce((sum, x) => sum + x, 0) || 1;
        const row = make("div", undefined, "row"), bar = make("div", undefined, "bar");
        row.append(make("span", `${run.name}, rank ${rank}`), bar);
        for (const part of Object.keys(parts)) {
          const seconds = costs.seconds[part] || 0, share = (100 * seconds) / all;
          const piece = make("span");
          piece.style.cssText = `width:${share}%;background:${parts[part]}`;
          piece.title = `${told[part]}: ${seconds.toFixed(2)} s, ${share.toFixed(1)}%`;
          bar.append(piece);
        }
        row.append(make("span"), make("span", Object.keys(parts).filter((part) => costs.seconds[part] / all >= 0.005)
          .map((part) => `${part} ${((100 * costs.seconds[part]) / all).toFixed(0)}%`).join(", ") +
          (costs.overlapped_communication > 0 ? `; communication beside it ${((100 * costs.overlapped_communication) / all).toFixed(0)}%` : ""), "faint"));
        by("bars").append(row);
        if (run.straggler && run.straggler.rank === rank)
          row.lastChild.textContent += `; works ${(100 * run.straggler.excess).toFixed(0)}% longer than the mean of the ranks`;
        memory.push([{text: run.name, colour: colour(i)}, right(rank), costs.host, right(bytes(costs.host_memory)), right(bytes(costs.device_memory)),
          ...(driver ? [right(bytes(costs.driver_memory)), right(costs.device_utilisation === undefined ? "" : `${(100 * costs.device_utilisation).toFixed(0)}%`)] : [])]);
      }
    }
    if (memory.length > 0) {
      const key = make("p", undefined, "controls faint");
      for (const part of Object.keys(parts)) {
        const one = make("span", told[part]), swatch = make("span", "", "swatch");
        swatch.style.background = parts[part];
        one.prepend(swatch);
        key.append(one);
      }
      by("bars").append(key);
      fill(by("memory").querySelector("table"), [["run", right("rank"), "host", right("peak on the host"), right("peak on the device"),
                      ...(driver ? [right("by its driver"), right("device busy")] : [])], ...memory]);
    }
    by("time").hidden = by("memory").hidden = memory.length === 0;
  }

  let panelled = "";
  function panels() {
    const all = JSON.stringify(data.panels);
    if (all === panelled) return;  // the reader may have scrolled in one
    panelled = all;
    by("panels").replaceChildren();
    for (const panel of data.panels) {
      const section = make(panel.folded ? "details" : "section");
      section.append(make(panel.folded ? "summary" : "h2", panel.title));
      if (panel.kind === "html") {
        const frame = make("iframe");
        frame.sandbox = "";
        frame.srcdoc = panel.content;
        section.append(frame);
      } else if (panel.kind === "text") {
        section.append(make("pre", panel.content));
      } else if (panel.kind === "image") {
        const image = make("img");
        image.src = panel.content;
        image.alt = panel.title;
        section.append(image);
      } else {
        const wide = make("div", undefined, "wide"), table = make("table");
        wide.append(table);
        section.append(wide);
        fill(table, panel.rows);
        if (panel.more > 0) section.append(make("p", `and ${panel.more} more rows`, "faint"));
      }
      by("panels").append(section);
    }
  }

  // How a run stands that goes on; `silent`: why nothing new is known.
  const duration = (seconds) => {
    const s = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
    return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
  };
  let received = Date.now(), silent = "";
  function stand() {
    const live = data.live, bar = by("live").querySelector(".bar"), parts = [];
    by("live").hidden = false;
    parts.push((live.stage ? live.stage + ": " : "") + live.state);
    if (live.step !== undefined)
      parts.push(`step ${live.step.toLocaleString("en")}` + (live.steps ? ` of ${live.steps.toLocaleString("en")}` : ""));
    if (live.rate) parts.push(`${live.rate.toLocaleString("en", {notation: "compact", maximumSignificantDigits: 3})} ${live.unit} a second`);
    if (live.left !== undefined && live.state === "training") parts.push(`${duration(live.left)} left`);
    if (live.device_memory) parts.push(`${bytes(live.device_memory)} on the device`);
    if (live.checkpoint) parts.push(`checkpoint after step ${Number(live.checkpoint.slice(5)).toLocaleString("en")}`);
    if (live.age !== undefined && !silent) parts.push(`last step ${duration(live.age + (Date.now() - received) / 1000)} ago`);
    by("live").querySelector("p").textContent = parts.join(" · ");
    bar.style.display = live.steps ? "" : "none";
    if (live.steps) bar.firstChild.style.width = `${(100 * live.step) / live.steps}%`;
    if (silent) [by("verdict").textContent, by("verdict").className] = [silent, "bad"];
  }
  async function poll() {
    try {
      const response = await fetch("data" + location.search, {cache: "no-store"});
      if (!response.ok) throw new Error(await response.text());
      data = await response.json();
      [runs, received, silent] = [data.runs, Date.now(), ""];
      show();
    } catch (error) {
      silent ||= error instanceof TypeError  // of fetch()
        ? `Since ${new Date().toLocaleTimeString()} there is no answer: the run has ended, or cannot be reached.` : error.message;
      stand();
    }
    setTimeout(() => (document.hidden ? document.addEventListener("visibilitychange", poll, {once: true}) : poll()), 3000);
  }

  function show() {
    tell();
    choices();
    offer();
    draw(true);
    costs();
    panels();
    fit();
    if (data.live) stand();
  }
  show();
  window.addEventListener("resize", fit);
  if (data.live) setTimeout(poll, 3000);
  document.body.dataset.done = "yes";
})();
