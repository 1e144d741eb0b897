// Errors: what the server says is wrong, at the field that it is about.

import { byId, element } from "./dom.js";

const WHOLE = /^\/(?:problem|instance|instances\/\d+)$/;
const DOCUMENT = /^\/(?:problem|instance|instances\/\d+)(?=\/|$)/;

/** What programs are told of a value, in words for people. */
const SAID = [
  [/^Input should be a valid (?:number|integer)\b.*/, "give a number"],
  [/^Input should be (greater|less) than or equal to (.+)/, (_, side, end) => `give ${end} or ${side === "less" ? "less" : "more"}`],
  [/^Input should be greater than (.+)/, "give more than $1"],
  [/^Input should be less than (.+)/, "give less than $1"],
  [/^Input should be (.+)/, "give $1"],
  [/^(?:Field required|field required)$/, "is missing"],
  [/^Extra inputs are not permitted$/, "is not known"],
  [/[;,]? see \/v1\/[\w./-]+/, ""],
  [/[;,]? \/v1\/[\w./-]+ lists (?:the )?\w+/, ""],
];

/** Return a sentence of the server without what only programs read. */
export const inWords = (sentence) => SAID.reduce((said, [sign, words]) => said.replace(sign, words), sentence);

/** Take away the last answer: it does not stand under a new error. */
export function clearAnswer() {
  for (const name of ["result", "lines"]) byId(name).replaceChildren();
  for (const name of ["downloads", "progress"]) byId(name).hidden = true;
}

/** Show a problem of the server: its sentence, and each field that is wrong. */
export function showErrors(problem) {
  clearErrors();
  clearAnswer();
  const found = (problem.errors ?? []).map((one) => ({
    // Of what is wrong with the whole document the sentence may know more than the pointer.
    field: (WHOLE.test(one.pointer ?? "") && fieldNamed(one.detail)) || fieldAt(one.pointer ?? ""),
    words: one.pointer ? `${placeOf(one.pointer)}: ${inWords(one.detail)}` : inWords(one.detail),
    detail: inWords(one.detail),
  }));
  // A sentence that begins with a pointer says no more than its first field.
  const sentence = problem.message.startsWith("/") && found.length ? `${found[0].words}.` : inWords(problem.message);
  const named = found.length ? null : fieldNamed(sentence);
  if (named) found.push({ field: named, detail: sentence });
  const alone = found.length === 1 && (found[0].detail === sentence || `${found[0].words}.` === sentence);
  const items = alone ? [] : found.map((one) => element("li", {}, link(one)));
  byId("errors").replaceChildren(
    element("p", {}, sentence),
    ...(items.length ? [element("ul", {}, ...items)] : []),
    ...(alone ? [element("p", {}, link({ field: found[0].field, words: "Go to the field" }))] : []),
  );
  for (const { field, detail } of found) mark(field, detail);
  byId("errors").focus();
}

export function clearErrors() {
  byId("errors").replaceChildren();
  for (const note of document.querySelectorAll("[data-note]")) note.remove();
  for (const field of document.querySelectorAll("[aria-invalid][data-pointer], #document[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    const kept = (field.getAttribute("aria-describedby") ?? "").split(" ").filter((id) => !id.startsWith("note-"));
    if (kept.join("")) field.setAttribute("aria-describedby", kept.join(" "));
    else field.removeAttribute("aria-describedby");
  }
}

/** A place in a document in words: "/instance/jobs/0/arrival_s" is "jobs 1, arrival s". */
function placeOf(pointer) {
  const parts = pointer.replace(DOCUMENT, "").split("/").filter(Boolean);
  const words = parts.map((part) => (/^\d+$/.test(part) ? ` ${Number(part) + 1}` : `, ${part.replaceAll("_", " ")}`));
  return words.join("").replace(/^[, ]+/, "") || "the problem";
}

/** The input of a place in the request; of one in the document that has none, the document. */
function fieldAt(pointer) {
  const inside = DOCUMENT.test(pointer);
  const place = pointer.replace(DOCUMENT, "");
  const area = byId(inside ? "numbers" : "options");
  const exact = [...area.querySelectorAll("[data-pointer]")].find((one) => one.dataset.pointer === place);
  if (exact) return exact;
  if (inside) return byId("document");
  const parent = place.slice(0, place.lastIndexOf("/"));
  return parent ? fieldAt(parent) : byId("operation");
}

/** The input whose item and field a sentence names. */
function fieldNamed(sentence) {
  if (sentence.startsWith("change ")) return fieldAt("/changes");
  return [...byId("numbers").querySelectorAll("[data-item]")].find(
    ({ dataset }) =>
      dataset.item !== "" &&
      sentence.includes(`"${dataset.item}"`) &&
      new RegExp(`\\b${dataset.field}\\b`).test(sentence),
  );
}

function mark(field, detail) {
  if (field.hasAttribute("aria-invalid")) return;
  const id = `note-${field.id}`;
  const before = field.getAttribute("aria-describedby");
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", before ? `${before} ${id}` : id);
  field.closest("details")?.setAttribute("open", "");
  field.after(element("p", { class: "error", id, "data-note": true }, detail));
}

function link({ field, words }) {
  const made = element("a", { href: `#${field.id}` }, words);
  made.addEventListener("click", (event) => {
    event.preventDefault();
    field.focus();
  });
  return made;
}
