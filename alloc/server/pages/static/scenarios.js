// Scenarios: finished answers, to open again and to hold side by side.

import { getJson, getText } from "./api.js";
import { announce, byId, element, showView } from "./dom.js";
import { openJob } from "./answer.js";

const COMPARED = ["plan", "what-if", "solve", "place"];
/** What the page itself asks for, before there is a question. */
const PREPARED = ["inspect-files", "read-files"];
const LISTED = 30;

export function startScenarios() {
  byId("scenarios-form").addEventListener("submit", compare);
  byId("refresh").addEventListener("click", async () => {
    await listJobs();
    announce("The list is fresh.");
  });
}

/** List the latest finished jobs; those that were ticked stay so. */
export async function listJobs() {
  const ticked = new Set(chosen());
  const { jobs } = await getJson(`/v1/jobs?state=done&limit=${LISTED}`);
  const legend = byId("jobs").querySelector("legend");
  const answers = jobs.filter((job) => !PREPARED.includes(job.operation));
  const rows = answers.map((job) => row(job, ticked.has(job.id)));
  const none = element("p", { class: "remark" }, "None yet.");
  byId("jobs").replaceChildren(legend, rows.length ? element("ul", { class: "jobs" }, ...rows) : none);
}

function row(job, ticked) {
  const name = job.label ?? `${job.operation} ${job.id.slice(-6)}`;
  const time = new Date(job.finished_at).toLocaleTimeString();
  const id = `tick-${job.id}`;
  const box = element("input", {
    id,
    type: "checkbox",
    value: job.id,
    checked: ticked,
    disabled: !COMPARED.includes(job.operation),
  });
  const words = job.label ? `${name} (${job.operation}, ${time})` : `${name} (${time})`;
  const open = element("button", { type: "button", "aria-label": `Open ${name}` }, "Open");
  open.addEventListener("click", async () => {
    await openJob(job.id);
    byId("result").querySelector(".view-title")?.focus();
  });
  const label = element("label", { for: id }, words);
  return element("li", {}, element("span", { class: "grow" }, box, label), open);
}

const chosen = () => [...byId("jobs").querySelectorAll("input:checked")].map((box) => box.value);

async function compare(event) {
  event.preventDefault();
  const query = new URLSearchParams(chosen().map((id) => ["job", id]));
  byId("compare-error").textContent = "";
  if (!query.size) {
    byId("compare-error").textContent = "tick the answers to compare first.";
    return;
  }
  try {
    showView(byId("comparison"), await getText(`/v1/comparisons/view?${query}`));
    byId("comparison").querySelector(".view-title").focus();
  } catch (problem) {
    byId("compare-error").textContent = problem.message;
  }
}
