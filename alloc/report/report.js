// Tables that sort and filter, and charts to look into; without it the page shows all of it, still.
"use strict";

const STEP = 1.5, LEFT = 92, RIGHT = 12, FOOT = 36, ROW = 18;
// Asked of the browser, so that no address stands in the page.
const SVG = Object.assign(document.createElement("div"), { innerHTML: "<svg></svg>" }).firstChild.namespaceURI;
const show = (value) => Number(value.toPrecision(4)).toLocaleString("en");

function node(space, name, attributes, ...children) {
  const made = space ? document.createElementNS(space, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
const html = (name, attributes, ...children) => node(null, name, attributes, ...children);
const svg = (name, attributes, ...children) => node(SVG, name, attributes, ...children);
const button = (words, action) => {
  const made = html("button", { type: "button" }, words);
  made.addEventListener("click", action);
  return made;
};

// Tables: a click on a heading sorts, numbers by value and what is none last; a field filters.
function enliven(table) {
  const body = table.tBodies[0];
  const valueOf = (row, k) => {
    const text = row.cells[k].textContent.trim().replaceAll(",", "");
    return /^[-+]?[\d.]/.test(text) ? parseFloat(text) : NaN;
  };
  const order = (k, sign) => (a, b) => {
    const [x, y] = [valueOf(a, k), valueOf(b, k)];
    if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
    return sign * (Number.isNaN(x) ? a.cells[k].textContent.localeCompare(b.cells[k].textContent) : x - y);
  };
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, k) => {
    const sort = button(heading.textContent, () => {
      const up = heading.getAttribute("aria-sort") !== "ascending";
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      body.append(...[...body.rows].sort(order(k, up ? 1 : -1)));
    });
    heading.replaceChildren(sort);
  });
  if (body.rows.length < 6) return;
  const words = `Show only rows of ${table.caption?.textContent ?? "the table"} that hold`;
  const field = html("input", { class: "filter", type: "search", placeholder: "Show only rows with ...", "aria-label": words });
  field.addEventListener("input", () => {
    const wanted = field.value.trim().toLowerCase();
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  table.closest(".scroll").before(field);
}

function axes(plot, width, height, [low, high], words, left) {
  const power = 10 ** Math.floor(Math.log10((high - low) / 3 || 1));
  const step = power * [1, 2, 5, 10].find((m) => (high - low) / (m * power) <= Math.max(2, width / 90));
  const place = (value) => left + ((value - low) / (high - low || 1)) * (width - left - RIGHT);
  for (let k = Math.ceil(low / step); k * step <= high; k += 1) {
    const x = place(k * step);
    plot.append(svg("line", { class: "grid", x1: x, x2: x, y1: 0, y2: height }),
      svg("text", { x, y: height + 15, "text-anchor": "middle" }, show(k * step)));
  }
  plot.append(svg("text", { x: left, y: height + 31 }, words));
  return place;
}

function lines(place, title, data, key, range, words, stepped) {
  const [width, height, left] = [place.clientWidth - 2, 190, LEFT];
  const plot = svg("svg", { width, height: height + FOOT, role: "img", "aria-label": title });
  const at = axes(plot, width, height, range, words, left);
  for (const share of [0, 0.5, 1]) {
    const y = height - share * (height - 8);
    plot.append(svg("line", { class: "grid", x1: left, x2: width - RIGHT, y1: y, y2: y }),
      svg("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, `${100 * share}%`));
  }
  const inside = svg("svg", { x: left, y: 0, width: Math.max(width - left - RIGHT, 1), height, overflow: "hidden" });
  for (const one of data.filter((each) => each.on)) {
    const [xs, ys] = one[key];
    const points = ys.map((y, k) => {
      const [x, top] = [at(xs[k]) - left, height - y * (height - 8)];
      return stepped ? `${k ? "H" : "M"}${x} ${k ? `V${top}` : top}` : `${k ? "H" : `M0 ${height}H`}${x}V${top}`;
    });
    const last = stepped ? at(xs[xs.length - 1]) - left : width;
    inside.append(svg("path", { class: `line ${one.style}`, d: `${points.join("")}H${last}${stepped ? `V${height}` : ""}` }, svg("title", {}, one.name)));
  }
  plot.append(inside);
  place.replaceChildren(plot);
}

// The arrow keys go from bar to bar of a chart, up and down to the next bar of another row.
function walk(plot, drawn, choose) {
  let chosen = -1;
  plot.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by || !drawn.length) return;
    event.preventDefault();
    drawn[chosen]?.made.classList.remove("chosen");
    const row = drawn[chosen]?.bar[0];
    do chosen = (chosen + by + drawn.length) % drawn.length;
    while (/Up|Down/.test(event.key) && drawn[chosen].bar[0] === row && drawn.some((one) => one.bar[0] !== row));
    drawn[chosen].made.classList.add("chosen");
    drawn[chosen].made.scrollIntoView({ block: "nearest" });
    choose(drawn[chosen].told);
  });
}

function gantt(place, data, { name: whose, gantt: chart }, [low, high], choose) {
  const width = place.clientWidth - 2, height = chart.rows.length * ROW;
  const words = `Gantt chart of ${whose} by ${chart.by}: ${chart.rows.length} rows. The arrow keys go from bar to bar, plus and minus zoom.`;
  const plot = svg("svg", { width, height: height + FOOT, role: "group", "aria-label": words, tabindex: 0 });
  const at = axes(plot, width, height, [low, high], `time, ${data.unit}`, LEFT);
  chart.rows.forEach((name, row) => {
    const cut = name.length > 13 ? `${name.slice(0, 6)}…${name.slice(-6)}` : name;
    plot.append(svg("text", { x: LEFT - 6, y: row * ROW + 13, "text-anchor": "end" }, cut, svg("title", {}, name)));
  });
  const num = (row) => Math.max(1, ...chart.bars.filter((bar) => bar[0] === row).map((bar) => bar[1] + 1));
  const lanes = chart.bars ? chart.rows.map((_, row) => num(row)) : [];
  const bars = chart.bars ?? chart.means.flatMap((row, r) => row.flatMap((mean, k) =>
    mean ? [[r, 0, (k * chart.end) / row.length, ((k + 1) * chart.end) / row.length, null, mean]] : []));
  const shown = bars.filter((bar) => bar[3] > low && bar[2] < high);
  const drawn = shown.map((bar) => {
    const [row, lane, from, to, job, held] = bar;
    const x = Math.max(at(from), LEFT), each = (ROW - 3) / (lanes[row] ?? 1);
    const size = { x, y: row * ROW + 1 + lane * each, width: Math.max(Math.min(at(to), width) - x, 1), height: each };
    const said = job === null
      ? `${chart.rows[row]}: on average ${held} % ${chart.whole} in use`
      : `${data.jobs[job]}${chart.by === "host" ? ` on ${chart.rows[row]}` : ""}: ${show(held)} ${data.held}`;
    const look = job === null ? { class: "bar c0", "fill-opacity": Math.min(held / 100, 1) } : { class: `bar c${job % 6}` };
    const made = svg("rect", { ...size, ...look });
    const told = `${said}, ${show(from)} to ${show(to)} ${data.unit}`;
    made.addEventListener("pointerenter", () => choose(told));
    return { bar, made, told };
  }).sort((a, b) => a.bar[0] - b.bar[0] || a.bar[2] - b.bar[2]);
  plot.append(...drawn.map(({ made }) => made));
  walk(plot, drawn, choose);
  place.replaceChildren(plot);
}

// A box that says whether something is drawn, beside how it looks.
function ticked(one, look, draw) {
  const box = html("input", { type: "checkbox", checked: "" });
  box.addEventListener("change", () => { one.on = box.checked; draw(); });
  return html("label", {}, box, svg("svg", { width: 26, height: 10, "aria-hidden": "true" }, look), one.name);
}

function explore(place) {
  const data = JSON.parse(document.getElementById(place.dataset.of).textContent);
  if (!data.series.length) return;
  let next = 0;
  for (const one of data.series) {
    one.style = one.is_best ? "ink" : `c${next % 6}${next > 5 ? " dashed" : ""}`;
    next += one.is_best ? 0 : 1;
    one.on = true;
  }
  const longest = (key) => Math.max(...data.series.map((one) => one[key][0].at(-1) ?? 0)) || 1;
  const end = longest("use");
  const best = data.series.findIndex((one) => one.is_best);
  let view = [0, end], chosen = data.shown;
  const picker = html("select", { "aria-label": "Schedule to look at" },
    ...data.series.flatMap((one, k) =>
      one.gantt ? [html("option", { value: k, ...(k === chosen ? { selected: "" } : {}) }, one.name)] : []));
  const [above, below, use, jct] = [0, 1, 2, 3].map(() => html("div", { class: "plot" }));
  const heading = html("h4", {});
  const readout = html("output", { class: "readout", "aria-live": "polite" });
  const note = html("p", { class: "remark" });
  const zoom = (factor, shift = 0) => {
    const span = Math.min((view[1] - view[0]) / factor, end), middle = (view[0] + view[1]) / 2 + shift * span;
    const low = Math.min(Math.max(middle - span / 2, 0), end - span);
    view = [low, low + span];
    draw();
  };
  const draw = () => {
    const shown = data.series[chosen].gantt;
    const focused = [above, below].find((one) => one.contains(document.activeElement));
    const say = (words) => { readout.textContent = words; };
    above.hidden = best < 0 || best === chosen;
    if (!above.hidden) gantt(above, data, data.series[best], view, say);
    gantt(below, data, data.series[chosen], view, say);
    focused?.firstChild.focus();
    heading.textContent = `Schedule of ${data.series[chosen].name}${above.hidden ? "" : `, below ${data.series[best].name}`}, by ${shown.by}`;
    note.textContent = shown.aggregated
      ? `${shown.aggregated}: too many to be drawn one by one, so each cell is a mean, in percent ${shown.whole}.` : "";
    lines(use, `Share of ${data.used} held over time`, data.series, "use", view, `time, ${data.unit}`, true);
    lines(jct, "Share of jobs complete", data.series, "jct", [0, longest("jct")], `job completion time, ${data.unit}`, false);
  };
  picker.addEventListener("change", () => { chosen = Number(picker.value); draw(); });
  for (const one of [above, below]) {
    one.addEventListener("keydown", ({ key }) => {
      const factor = { "+": STEP, "-": 1 / STEP, 0: 1e-9 }[key];
      if (factor) zoom(factor);
    });
  }
  const boxes = data.series.map((one) => ticked(one, svg("path", { class: `line ${one.style}`, d: "M0 5H26" }), draw));
  const moves = [["Zoom in", STEP, 0], ["Zoom out", 1 / STEP, 0], ["Earlier", 1, -0.5], ["Later", 1, 0.5], ["All", 1e-9, 0]];
  place.append(
    heading,
    html("div", { class: "controls" }, picker, ...moves.map(([words, factor, shift]) => button(words, () => zoom(factor, shift)))),
    above, below, readout, note,
    html("div", { class: "controls", role: "group", "aria-label": "Schedulers in the charts below" }, ...boxes),
    html("h4", {}, `${data.used} held over time`), use, html("h4", {}, "Jobs complete within a time"), jct);
  place.hidden = false;
  draw();
  addEventListener("resize", draw);
}

// A chart of a plan: bars by quarter, stacked; what is ticked is drawn, and a bar says what it holds.
function stack(place, chart, choose) {
  const [width, height] = [place.clientWidth - 2, 220], shown = chart.layers.filter((one) => one.on);
  const words = `${chart.title}: bars by quarter. The arrow keys go from bar to bar.`;
  const plot = svg("svg", { width, height: height + FOOT, role: "group", "aria-label": words, tabindex: 0 });
  const quarters = chart.layers[0].values.map((_, quarter) => quarter);
  const sums = quarters.map((quarter) => shown.reduce((sum, one) => sum + one.values[quarter], 0));
  const top = Math.max(...sums, 0) || 1, each = (width - LEFT - RIGHT) / quarters.length;
  for (const share of [0, 0.5, 1]) {
    const y = height - share * (height - 12);
    plot.append(svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }),
      svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, show(share * top)));
  }
  plot.append(svg("text", { x: LEFT, y: height + 31 }, "quarter (0 is the first)"),
    ...quarters.map((quarter) => svg("text", { x: LEFT + (quarter + 0.5) * each, y: height + 15, "text-anchor": "middle" }, quarter)));
  const below = quarters.map(() => 0);
  const drawn = shown.flatMap((one, row) => one.values.flatMap((value, quarter) => {
    if (!value) return [];
    const tall = (value / top) * (height - 12), y = height - (below[quarter] / top) * (height - 12) - tall;
    below[quarter] += value;
    const made = svg("rect", { class: `bar ${one.style}`, x: LEFT + (quarter + 0.19) * each, y, width: 0.62 * each, height: Math.max(tall, 1) });
    const range = one.range ? `, ${show(one.range[quarter][0])} to ${show(one.range[quarter][1])} over the scenarios` : "";
    const all = chart.layers.length > 1 ? `; ${show(sums[quarter])} ${chart.unit} in all` : "";
    const told = `Quarter ${quarter}, ${one.name}: ${show(value)} ${chart.unit}${range}${all}`;
    made.addEventListener("pointerenter", () => choose(told));
    return [{ bar: [row, 0, quarter], made, told }];
  }));
  plot.append(...drawn.map(({ made }) => made));
  walk(plot, drawn, choose);
  place.replaceChildren(plot);
}

function stacks(place) {
  for (const chart of JSON.parse(document.getElementById(place.dataset.of).textContent)) {
    chart.layers.forEach((one, k) => Object.assign(one, { style: `c${k % 6}`, on: true }));
    const room = html("div", { class: "plot" }), readout = html("output", { class: "readout", "aria-live": "polite" });
    const draw = () => stack(room, chart, (words) => { readout.textContent = words; });
    place.append(html("h4", {}, chart.title));
    if (chart.layers.length > 1) place.append(html("div", { class: "controls", role: "group", "aria-label": `What is drawn of: ${chart.title}` },
      ...chart.layers.map((one) => ticked(one, svg("rect", { class: one.style, width: 26, height: 10 }), draw))));
    place.append(room, readout);
    place.hidden = false;
    draw();
    addEventListener("resize", draw);
  }
}

document.querySelectorAll("main table").forEach(enliven);
document.querySelectorAll(".stacks").forEach(stacks);
document.querySelectorAll(".explorer").forEach(explore);
document.documentElement.classList.add("js");
