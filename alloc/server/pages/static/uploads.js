// Files of people's own: the server says what they are and reads them; columns can be corrected.

import { getText, runJob } from "./api.js";
import { announce, byId, element, showView, words } from "./dom.js";
import { inWords } from "./errors.js";
import { typed } from "./numbers.js";

let files = [];
let inspection = null;
let give = {};
let turn = 0;

/** Listen for files; `takers` take the document, instance or topology that they hold. */
export function startUploads(takers) {
  give = takers;
  const place = byId("drop");
  byId("file").addEventListener("change", () => take([...byId("file").files]));
  for (const kind of ["dragenter", "dragover"]) {
    place.addEventListener(kind, (event) => {
      event.preventDefault();
      place.classList.add("over");
    });
  }
  for (const kind of ["dragleave", "drop"]) place.addEventListener(kind, () => place.classList.remove("over"));
  place.addEventListener("drop", (event) => {
    event.preventDefault();
    take([...event.dataTransfer.files]);
  });
  // A file that misses the place would take the place of the page.
  for (const kind of ["dragover", "drop"]) addEventListener(kind, (event) => event.preventDefault());
  byId("read").addEventListener("click", () => guarded(read));
  byId("drop-files").addEventListener("click", () => {
    forget();
    byId("file").focus();
  });
}

/** Take files: a single problem in JSON as it is, others to the server. */
async function take(chosen) {
  if (!chosen.length) return;
  forget(false);
  files = await Promise.all(chosen.map(contentOf));
  if (files.length === 1 && isProblem(files[0])) {
    give.text(files[0].content, files[0].name);
    return;
  }
  byId("uploads").hidden = false;
  await guarded(async (current) => {
    await inspect(current);
    if (!current()) return;
    if (!inspection.files.some((one) => one.columns?.missing.length)) await read(current);
    else fail({ message: missingWords() });
  });
}

function forget(chosen = true) {
  turn += 1;
  files = [];
  inspection = null;
  byId("uploads").hidden = true;
  if (chosen) byId("file").value = "";
  for (const name of ["upload-files", "upload-columns", "upload-options", "reading"]) byId(name).replaceChildren();
  byId("upload-error").textContent = "";
}

async function contentOf(file) {
  try {
    const content = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(await file.arrayBuffer());
    return { name: file.name, content, encoding: "text" };
  } catch {
    const address = await new Promise((done, failed) => {
      const reader = new FileReader();
      reader.addEventListener("load", () => done(reader.result));
      reader.addEventListener("error", failed);
      reader.readAsDataURL(file);
    });
    return { name: file.name, content: address.slice(address.indexOf(",") + 1), encoding: "base64" };
  }
}

/** Whether a file is a problem of alloc, and no list of Kubernetes or dump of Slurm. */
function isProblem({ content, encoding }) {
  if (encoding !== "text" || !content.trimStart().startsWith("{")) return false;
  try {
    return JSON.parse(content).schema_version !== undefined;
  } catch {
    return /"schema_version"/.test(content.slice(0, 1000));
  }
}

/** Do something with the server; what goes wrong is said beside the files, and no answer stays. */
async function guarded(action) {
  const mine = (turn += 1);
  byId("read").disabled = true;
  byId("upload-error").textContent = "";
  byId("reading").replaceChildren();
  byId("upload-progress").textContent = "Reading ...";
  try {
    await action(() => mine === turn);
  } catch (problem) {
    if (mine === turn) fail(problem);
  } finally {
    if (mine === turn) {
      byId("read").disabled = false;
      byId("upload-progress").textContent = "";
    }
  }
}

function fail(problem) {
  const wrong = problem.errors?.[0]?.pointer;
  const sentence = problem.message.startsWith("/") ? problem.errors?.[0]?.detail : null;
  byId("upload-error").textContent = inWords(sentence ?? problem.message);
  give.nothing();
  const area = { "/columns": "upload-columns", "/options": "upload-options", "/host_type": "upload-options" }[wrong];
  if (area) byId(area).querySelector("select, input")?.focus();
  else if (byId("uploads").contains(document.activeElement) || document.activeElement === document.body) {
    byId("uploads-title").focus();
  }
}

const missingWords = () => {
  const { name, columns } = inspection.files.find((one) => one.columns?.missing.length);
  return `${name}: no column looks like the ${columns.missing.join(" or the ")} of jobs; choose it, and read the files.`;
};

const asked = () => ({ files: files.map(withRole), columns: columnsChosen() });
const withRole = (file, position) => {
  const role = byId(`role-${position}`)?.value;
  return role ? { ...file, role } : file;
};
const columnsChosen = () =>
  Object.fromEntries(
    [...byId("upload-columns").querySelectorAll("select")]
      .filter((one) => one.value && (one.dataset.guessed === undefined || one.value !== one.dataset.guessed))
      .map((one) => [one.dataset.key, one.value]),
  );
const optionsChosen = () =>
  Object.fromEntries(
    [...byId("upload-options").querySelectorAll("[data-option]")]
      .map((one) => [one.dataset.option, typed(one.value)])
      .filter(([, value]) => value !== undefined),
  );

async function inspect(current) {
  const { result } = await runJob("inspect-files", asked(), () => {});
  if (!current()) return;
  inspection = result;
  const kinds = Object.entries(inspection.roles);
  byId("upload-files").replaceChildren(
    ...inspection.files.map((one, position) => {
      const id = `role-${position}`;
      const options = kinds.map(([role, about]) => element("option", { value: role, selected: role === one.role }, about));
      const select = element("select", { id }, ...options);
      select.addEventListener("change", () => {
        byId("upload-columns").replaceChildren();
        guarded(inspect);
      });
      return element("div", {}, element("label", { for: id }, one.name), select);
    }),
  );
  const table = inspection.files.find((one) => one.columns);
  byId("upload-columns").replaceChildren(...(table ? [columnsForm(table.columns)] : []));
  byId("upload-options").replaceChildren(optionsForm());
}

function columnsForm({ header, chosen, missing }) {
  const guesses = new Map(chosen.map((one) => [one.is, one]));
  const first = [...missing, ...guesses.keys()];
  const controls = Object.entries(inspection.keys).map(([key, about]) => {
    const id = `column-${key}`;
    const guess = guesses.get(key);
    // What is guessed can be corrected, not left out.
    const options = (guess?.guessed ? header : ["", ...header]).map((name) =>
      element("option", { value: name, selected: name === (guess?.column ?? "") }, name || "(none)"),
    );
    const select = element("select", { id, "data-key": key, "data-guessed": guess?.guessed ? guess.column : null, "aria-describedby": `${id}-hint` }, ...options);
    const hint = element("p", { class: "hint", id: `${id}-hint` }, about);
    return [first.includes(key), element("div", {}, element("label", { for: id }, words(key)), select, hint)];
  });
  const group = (shown) => element("div", { class: "options" }, ...controls.filter(([is]) => is === shown).map(([, made]) => made));
  return element(
    "fieldset",
    {},
    element("legend", {}, "Columns of the job table, guessed by their names"),
    group(true),
    element("details", {}, element("summary", {}, "Other columns"), group(false)),
  );
}

function optionsForm() {
  const control = ({ name, help, type, choices, default: usual }) => {
    const id = `upload-option-${name}`;
    const base = { id, "data-option": name, "aria-describedby": `${id}-hint` };
    const values = type === "bool" ? ["true", "false"] : choices;
    const made = values.length
      ? element("select", base, ...["", ...values].map((one) => element("option", { value: one }, one || "(default)")))
      : element("input", { ...base, autocomplete: "off", placeholder: usual ?? "" });
    const hint = element("p", { class: "hint", id: `${id}-hint` }, help);
    return element("div", {}, element("label", { for: id }, words(name).replace(/ s$/, ", seconds")), made, hint);
  };
  const machine = { id: "host-type", autocomplete: "off", placeholder: "dgx-h100", "aria-describedby": "host-type-hint" };
  const hosts = element(
    "div",
    { hidden: !inspection.files.some((one) => one.role === "topology") },
    element("label", { for: "host-type" }, "machine of the hosts"),
    element("input", machine),
    element("p", { class: "hint", id: "host-type-hint" }, "Where the topology file does not say it: dgx-h100, 8x-a100-sxm-80gb, 4x-t4 ..."),
  );
  const more = inspection.options.map(control);
  return element(
    "div",
    {},
    hosts,
    ...(more.length ? [element("details", {}, element("summary", {}, "How to read them"), element("div", { class: "options" }, ...more))] : []),
  );
}

async function read(current) {
  const host = byId("host-type")?.value.trim();
  const body = { ...asked(), options: optionsChosen(), ...(host ? { host_type: host } : {}) };
  const { job, result } = await runJob("read-files", body, (line) => {
    byId("upload-progress").textContent = line;
  });
  const view = await getText(`${job.links.self}/view`);
  if (!current()) return;
  if (result.instance) give.problem(result.instance);
  else give.topology(result.topology);
  showView(byId("reading"), view);
  announce(result.headline);
}
