// Errors: what the server says is wrong, at the field that it is about.

import { byId, element } from "./dom.js";

const WHOLE = /^\/(?:problem|instance|instances\/\d+)$/;
const DOCUMENT = /^\/(?:problem|instance|instances\/\d+)(?=\/|$)/;

/** Show a problem of the server: its sentence, and each field that is wrong. */
export function showErrors(problem) {
  clearErrors();
  const found = (problem.errors ?? []).map((one) => ({
    // Of what is wrong with the whole document the sentence may know more than the pointer.
    field: (WHOLE.test(one.pointer ?? "") && fieldNamed(one.detail)) || fieldAt(one.pointer ?? ""),
    words: one.pointer ? `${placeOf(one.pointer)}: ${one.detail}` : one.detail,
    detail: one.detail,
  }));
  const named = found.length ? null : fieldNamed(problem.message);
  if (named) found.push({ field: named, detail: problem.message });
  const alone = found.length === 1 && found[0].detail === problem.message;
  const items = alone ? [] : found.map((one) => element("li", {}, link(one)));
  byId("errors").replaceChildren(
    element("p", {}, problem.message),
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
