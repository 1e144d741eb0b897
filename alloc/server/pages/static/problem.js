// The problem: stored examples, files, the document as text and its key numbers beside it.

import { getItems, getJson } from "./api.js";
import { announce, byId, element } from "./dom.js";
import { clearErrors } from "./errors.js";
import { showNumbers } from "./numbers.js";

const PAUSE_MS = 400;
const abouts = new Map();
let content = null;
let onKind = () => {};

/** Fill the list of examples and listen; `whenKind(kind)` is called when another document comes. */
export async function startProblem(whenKind) {
  onKind = whenKind;
  byId("load").addEventListener("click", load);
  byId("example").addEventListener("change", showAbout);
  byId("file").addEventListener("change", readFile);
  byId("document").addEventListener("input", readTextSoon);
  byId("problem-form").addEventListener("submit", (event) => event.preventDefault());
  await fillExamples();
}

/** Return the document as text, or null if it is not JSON. */
export function documentText() {
  readText();
  return content === null ? null : JSON.stringify(content);
}

async function fillExamples() {
  const [problems, instances] = await Promise.all([
    getItems("/v1/planning-problems"),
    getItems("/v1/instances"),
  ]);
  const group = (title, items, address, about) =>
    element(
      "optgroup",
      { label: title },
      ...items.map((item) => {
        abouts.set(address + item.id, about(item));
        return element("option", { value: address + item.id }, item.id);
      }),
    );
  byId("example").replaceChildren(
    group("Planning problems", problems, "/v1/planning-problems/", (item) => item.about),
    group("Instances", instances, "/v1/instances/", (item) => `${item.jobs} jobs, ${item.hosts} hosts`),
  );
  showAbout();
}

function showAbout() {
  byId("problem-about").textContent = abouts.get(byId("example").value) ?? "";
}

async function load() {
  byId("load").disabled = true;
  try {
    show(await getJson(byId("example").value));
    announce(`${content.name} is loaded.`);
  } catch (problem) {
    complain(problem.message);
  } finally {
    byId("load").disabled = false;
    byId("load").focus();
  }
}

async function readFile() {
  const [file] = byId("file").files;
  if (file === undefined) return;
  byId("document").value = await file.text();
  readText();
  if (content !== null) announce(`${file.name} is loaded.`);
}

let waiting = 0;
function readTextSoon() {
  clearTimeout(waiting);
  waiting = setTimeout(readText, PAUSE_MS);
}

/** Take over what was typed or pasted as the document. */
function readText() {
  clearTimeout(waiting);
  const text = byId("document").value;
  if (content !== null && text === pretty(content)) return;
  try {
    const parsed = JSON.parse(text);
    if (parsed === null || typeof parsed !== "object") throw new Error("it is not an object");
    content = parsed;
  } catch (error) {
    content = null;
    complain(text.trim() === "" ? "load an example or paste a document first." : `not JSON: ${error.message}.`);
    return;
  }
  accept();
}

function show(given) {
  content = given;
  byId("document").value = pretty(content);
  accept();
}

function accept() {
  complain("");
  clearErrors();
  showNumbers(byId("numbers"), content, () => {
    byId("document").value = pretty(content);
  });
  onKind(content.kind);
}

function complain(sentence) {
  byId("document-error").textContent = sentence;
  if (sentence) byId("document").setAttribute("aria-invalid", "true");
  else byId("document").removeAttribute("aria-invalid");
  if (sentence) announce(sentence);
}

const pretty = (value) => JSON.stringify(value, null, 1);
