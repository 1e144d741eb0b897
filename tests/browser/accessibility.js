// Own checks of the basics: names of controls, ids, headings, pictures, tables and contrast.
const found = [];
const shown = (node) => node.checkVisibility({ visibilityProperty: true });
const note = (words, node) => found.push(`${words}: ${node.outerHTML.slice(0, 120)}`);
const textOf = (ids) => ids.split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? "").join("").trim();
const nameOf = (node) =>
  (node.getAttribute("aria-labelledby") && textOf(node.getAttribute("aria-labelledby"))) ||
  node.getAttribute("aria-label") ||
  [...(node.labels ?? [])].map((label) => label.textContent.trim()).join(" ") ||
  (["BUTTON", "A", "SUMMARY"].includes(node.tagName) && node.textContent.trim());

for (const node of document.querySelectorAll("input, select, textarea, button, a[href], summary, progress, [role=region], [role=img], [role=group]")) {
  if (shown(node) && !nameOf(node)) note("has no name", node);
}
const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
for (const id of ids.filter((one, position) => ids.indexOf(one) !== position)) found.push(`id twice: ${id}`);
for (const attribute of ["aria-describedby", "aria-labelledby", "for"]) {
  for (const node of document.querySelectorAll(`[${attribute}]`)) {
    for (const id of node.getAttribute(attribute).split(/\s+/)) if (!document.getElementById(id)) note(`${attribute} leads nowhere`, node);
  }
}
let level = 0;
for (const node of [...document.querySelectorAll("h1, h2, h3, h4")].filter(shown)) {
  const own = Number(node.tagName[1]);
  if (own > level + 1) note("heading skips a level", node);
  level = own;
}
if (document.querySelectorAll("h1").length !== 1) found.push("there must be one h1");
if (!document.documentElement.lang) found.push("the page has no language");
for (const mark of ["header", "main", "footer", "nav"]) if (!document.querySelector(mark)) found.push(`no ${mark}`);
for (const node of document.querySelectorAll("[tabindex]")) if (Number(node.tabIndex) > 0) note("changes the order of the focus", node);
for (const node of document.querySelectorAll("svg.chart")) {
  if (node.getAttribute("role") !== "img" || !node.getAttribute("aria-label")) note("chart without words", node);
  if (!node.closest("figure").querySelector("table")) note("chart without a table", node);
}
for (const node of document.querySelectorAll("table")) {
  if (!node.caption) note("table without a caption", node);
  if ([...node.querySelectorAll("tbody tr")].some((row) => row.cells[0].scope !== "row")) note("row without a header", node);
}

const channels = (text) => text.match(/[\d.]+/g).map(Number);
const light = ([r, g, b]) => {
  const linear = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
};
const behind = (node) => {
  for (let at = node; at; at = at.parentElement) {
    const colour = channels(getComputedStyle(at).backgroundColor);
    if (colour.length === 3 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
let texts = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || !shown(node) || node.closest("title, option, optgroup, :disabled")) continue;
  const style = getComputedStyle(node);
  const colour = node instanceof SVGElement ? style.fill : style.color;
  const [a, b] = [light(channels(colour)), light(behind(node))].sort((x, y) => y - x);
  texts += 1;
  if ((a + 0.05) / (b + 0.05) < 4.5) note(`contrast ${((a + 0.05) / (b + 0.05)).toFixed(2)}`, node);
}
return { found, texts };
