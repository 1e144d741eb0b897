// The problem: stored examples, the document as text and its key numbers beside it.

import { getItems, getJson } from "./api.js";
import { announce, byId, element } from "./dom.js";
import { clearAnswer, clearErrors } from "./errors.js";
import { showNumbers } from "./numbers.js";

const PAUSE_MS = 400;
/** Characters that can still be edited as text without the page standing still. */
const EDITABLE = 2_000_000;
const abouts = new Map();
let content = null;
let onKind = () => {};

/** Fill the list of examples and listen; `whenKind(kind)` is called when another document comes. */
export async function startProblem(whenKind) {
  onKind = whenKind;
  byId("load").addEventListener("click", load);
  byId("example").addEventListener("change", showAbout);
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

/** Take the text of a file as the document. */
export function giveText(text, name) {
  byId("document").value = text;
  byId("document-part").open = true;
  content = null;
  readText();
  if (content !== null) announce(`${name} is loaded.`);
}

/** Take a document. */
export function giveProblem(given) {
  show(given);
}

/** Put a cluster in the place of that of the document. */
export function giveTopology(topology) {
  readText();
  if (content?.kind !== "instance") {
    throw new Error("the files hold a cluster and no jobs; add jobs to them, or load an instance first.");
  }
  show({ ...content, topology });
}

/** Take what a job was asked about as the document: the document itself, or an example by its id. */
export async function giveAsked(request) {
  const asked = request.problem ?? request.instance ?? request.instances?.[0];
  if (typeof asked !== "string") {
    if (asked) show(asked);
    return;
  }
  const option = [...byId("example").options].find((one) => one.textContent === asked);
  if (option === undefined) return;
  byId("example").value = option.value;
  showAbout();
  show(await getJson(option.value));
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
  if (content !== null && text === shown) return;
  try {
    const parsed = JSON.parse(text);
    if (parsed === null || typeof parsed !== "object") throw new Error("it is not an object");
    content = parsed;
    shown = text;
  } catch (error) {
    content = null;
    complain(text.trim() === "" ? "load an example or paste a document first." : `not JSON: ${error.message}.`);
    return;
  }
  accept();
}

function show(given) {
  content = given;
  showText();
  // On a wide page it stands beside the numbers; on a narrow one it would be in their way.
  byId("document-part").open = matchMedia("(min-width: 60rem)").matches;
  accept();
}

let shown = "";
/** Show the document as text, unless it is too long for that. */
function showText() {
  shown = pretty(content);
  const tooLong = shown.length > EDITABLE;
  if (tooLong) shown = "";
  byId("document").value = shown;
  byId("document").placeholder = tooLong ? "Too long to be edited here; it is sent as it is." : "";
}

function accept() {
  complain("");
  clearErrors();
  showNumbers(byId("numbers"), content, showText);
  onKind(content.kind);
}

function complain(sentence) {
  byId("document-error").textContent = sentence;
  if (sentence) {
    clearAnswer();
    byId("document-part").open = true;
  }
  if (sentence) byId("document").setAttribute("aria-invalid", "true");
  else byId("document").removeAttribute("aria-invalid");
  if (sentence) announce(sentence);
}

const pretty = (value) => JSON.stringify(value, null, 1);
