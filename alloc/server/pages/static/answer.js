// The answer: a job from its start to its end, with its progress, its result and downloads.

import { cancel, ended, getBlob, getJson, getText, submit, watch } from "./api.js";
import { announce, byId, element, save, showView } from "./dom.js";
import { clearAnswer, clearErrors, inWords, showErrors } from "./errors.js";
import { chooseOperation, requestOf } from "./options.js";
import { documentText, giveAsked } from "./problem.js";

const KEPT_LINES = 300;
const SAY_EVERY_MS = 3000;
let current = null;
let onDone = () => {};

export function startAnswer(whenDone) {
  onDone = whenDone;
  byId("question-form").addEventListener("submit", run);
  byId("cancel").addEventListener("click", stop);
  byId("download-json").addEventListener("click", () => download("result", "json"));
  byId("download-report").addEventListener("click", () => download("report", "html"));
}

async function run(event) {
  event.preventDefault();
  clearErrors();
  // What is asked now is not what the last answer answers.
  clearAnswer();
  const text = documentText();
  if (text === null) {
    byId("document").focus();
    return;
  }
  const { name, body } = requestOf(text);
  setBusy(true);
  try {
    await follow(await submit(name, body, byId("label").value.trim()));
  } catch (problem) {
    setBusy(false);
    showErrors(problem);
  }
}

/** Show a job, from wherever it is to its end. */
export async function follow(job) {
  current = job;
  history.replaceState(null, "", `#job=${job.id}`);
  begin(job);
  const last = ended(job) ? job : await watch(job, { onStatus, onLine });
  // Somebody may look at another job by now.
  if (current.id === job.id) await finish(last);
}

async function stop() {
  byId("cancel").disabled = true;
  try {
    await cancel(current);
  } catch (problem) {
    // That it has ended meanwhile is shown as its end.
    announce(problem.message);
  } finally {
    byId("cancel").disabled = false;
  }
}

function begin(job) {
  setBusy(!ended(job));
  clearAnswer();
  byId("progress").hidden = false;
  byId("bar").hidden = false;
  onStatus(job);
}

function onStatus(job) {
  const word = { queued: "Waiting for a worker", running: "Running", done: "Done" }[job.state];
  say(`${word ?? job.state}: ${job.operation}${job.label ? `, ${job.label}` : ""}`, true);
}

function onLine(line) {
  const lines = byId("lines");
  lines.append(element("li", {}, line));
  while (lines.children.length > KEPT_LINES) lines.firstChild.remove();
  say(line, false);
}

let said = 0;
/** Show how far it is; say it aloud only so often that one can listen. */
function say(words, important) {
  byId("progress-line").textContent = words;
  if (important || Date.now() - said > SAY_EVERY_MS) {
    said = Date.now();
    announce(words);
  }
}

async function finish(job) {
  byId("bar").hidden = true;
  try {
    if (job.state === "done") await showResult(job);
    else if (job.state === "failed") failed(job);
    else say(`The job is ${job.state}; run it again for a result.`, true);
  } finally {
    const listening = document.activeElement === byId("cancel") || document.activeElement === document.body;
    setBusy(false);
    if (listening && job.state !== "failed") {
      (byId("result").querySelector(".view-title") ?? byId("run")).focus({ preventScroll: job.state !== "done" });
    }
    onDone();
  }
}

function failed(job) {
  showErrors({ message: job.problem.detail, errors: job.problem.errors });
  byId("progress").hidden = false;
  say("The job failed; what is wrong stands under the question.", false);
}

async function showResult(job) {
  showView(byId("result"), await getText(`${job.links.self}/view`));
  byId("downloads").hidden = false;
  const verdict = byId("result").querySelector(".verdict")?.textContent ?? "";
  const seconds = (Date.parse(job.finished_at) - Date.parse(job.started_at)) / 1000;
  say(`Done in ${seconds.toFixed(1)} s.`, false);
  announce(`Done. ${verdict}`);
}

async function download(part, ending) {
  const job = current;
  try {
    const blob = await getBlob(`${job.links.self}/${part}`);
    save(blob, `alloc-${job.operation}-${job.id.slice(-6)}.${ending}`);
  } catch (problem) {
    announce(inWords(problem.message));
    byId("progress-line").textContent = inWords(problem.message);
  }
}

/** Let one cancel while a job runs, and run when none does; the focus goes with it. */
function setBusy(busy) {
  const focused = document.activeElement === byId("run");
  byId("cancel").hidden = !busy;
  if (busy && focused) byId("cancel").focus();
  byId("run").disabled = busy;
}

/** Show the job in the address of the page, if there is one. */
export async function openFromAddress() {
  const [, id] = /^#job=([0-9a-f]{32})$/.exec(location.hash) ?? [];
  if (!id) return;
  await showAsked(id);
  await openJob(id);
}

/** Show what a job was asked about, if that is still kept. */
async function showAsked(id) {
  try {
    const job = await getJson(`/v1/jobs/${id}`);
    await giveAsked(await getJson(job.links.request));
    chooseOperation(job.operation);
  } catch {
    // Its answer may be there all the same; what is wrong with that is said where it is asked for.
  }
}

export async function openJob(id) {
  try {
    await follow(await getJson(`/v1/jobs/${id}`));
  } catch (problem) {
    showErrors(problem);
  }
}
