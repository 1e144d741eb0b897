// The options of an operation: a form made from what the server's API says of its request.

import { getItems, getJson } from "./api.js";
import { byId, element, words } from "./dom.js";
import { typed } from "./numbers.js";

/** The documents of a request, which the page edits elsewhere. */
const DOCUMENTS = ["problem", "instance", "instances"];
const LEFT_OUT = [...DOCUMENTS, "warm_start", "topology"];
const FIRST = ["changes", "schedulers", "formulation", "goal", "axis", "objective", "time_limit_s", "replay"];
const KIND_OF = { problem: "planning", instance: "instance", instances: "instance" };
const CHOSEN = ["fifo", "srtf", "tetris"];

const catalogue = {};
let operations = [];
let schemas = {};

/** Read what there is to choose from. */
export async function startOptions() {
  const [listed, api, schedulers, formulations, changes] = await Promise.all([
    getItems("/v1/operations"),
    getJson("/v1/openapi.json"),
    getItems("/v1/schedulers"),
    getItems("/v1/formulations"),
    getItems("/v1/changes"),
  ]);
  schemas = api.components.schemas;
  catalogue.schedulers = schedulers.map((one) => one.name);
  catalogue.formulations = formulations.map((one) => one.name);
  catalogue.objectives = [...new Set(formulations.flatMap((one) => one.objectives))];
  catalogue.changes = changes;
  operations = listed
    .map((one) => ({ ...one, schema: schemas[one.request.split("/").pop()] }))
    .map((one) => ({ ...one, field: DOCUMENTS.find((name) => one.schema?.properties?.[name]) }))
    .filter((one) => one.field !== undefined);
  byId("operation").addEventListener("change", showOptions);
  offerOperations(undefined);
}

/** Offer the operations that take documents of a kind; all of them if the kind is unknown. */
export function offerOperations(kind) {
  const before = byId("operation").value;
  const fitting = operations.filter((one) => kindOf(one) === kind);
  const offered = fitting.length ? fitting : operations;
  byId("operation").replaceChildren(
    ...offered.map((one) => element("option", { value: one.name }, words(one.name))),
  );
  if (offered.some((one) => one.name === before)) byId("operation").value = before;
  if (byId("operation").value !== shown) showOptions();
}

/** Choose an operation, if it is offered. */
export function chooseOperation(name) {
  if (![...byId("operation").options].some((one) => one.value === name)) return;
  byId("operation").value = name;
  showOptions();
}

/** The kind of document that an operation takes: what its description says, or what is usual. */
const kindOf = ({ schema, field }) => schema.properties[field].properties?.kind?.const ?? KIND_OF[field];

const chosen = () => operations.find((one) => one.name === byId("operation").value);

let shown = null;
function showOptions() {
  const { name, summary, schema } = chosen();
  shown = name;
  byId("operation-about").textContent = summary;
  const rank = (key) => (FIRST.includes(key) ? FIRST.indexOf(key) : FIRST.length);
  const keys = Object.keys(schema.properties)
    .filter((key) => !LEFT_OUT.includes(key))
    .sort((a, b) => rank(a) - rank(b));
  const made = (key) => control(key, schema.properties[key], `/${key}`);
  const first = keys.filter((key) => FIRST.includes(key)).map(made);
  const others = keys.filter((key) => !FIRST.includes(key)).map(made);
  if (others.length) {
    first.push(
      element(
        "details",
        { class: "wide" },
        element("summary", {}, "More options"),
        element("div", { class: "options" }, ...others),
      ),
    );
  }
  byId("options").replaceChildren(...first);
}

/** Return the operation and the body of the request, around the text of the document. */
export function requestOf(text) {
  const { name, field } = chosen();
  const rest = valuesIn(byId("options"));
  const document = field === "instances" ? `[${text}]` : text;
  const others = JSON.stringify(rest).slice(1, -1);
  return { name, body: `{"${field}":${document}${others ? `,${others}` : ""}}` };
}

function valuesIn(place) {
  const found = {};
  for (const part of place.querySelectorAll("[data-key]")) {
    if (part.parentElement.closest("[data-key]") !== place.closest("[data-key]")) continue;
    const value = read(part);
    if (value !== undefined) found[part.dataset.key] = value;
  }
  return found;
}

function read(part) {
  const input = part.querySelector("input, select, textarea");
  switch (part.dataset.shape) {
    case "object":
      return input.checked ? valuesIn(part.querySelector(".options")) : undefined;
    case "names":
      return [...part.querySelectorAll("input:checked")].map((one) => one.value);
    case "lines":
      return input.value.split("\n").map((line) => line.trim()).filter(Boolean);
    case "numbers":
      return input.value.trim() ? input.value.split(/[\s,]+/).filter(Boolean).map(typed) : undefined;
    case "boolean":
      return input.checked;
    case "number":
      return typed(input.value);
    default:
      return input.value.trim() || undefined;
  }
}

/** Make the control of a property, with its label and what it means. */
function control(key, schema, pointer) {
  const plain = withoutNull(schema);
  const title = words(plain.title && !plain.$ref ? key : key).replace(/ s$/, ", seconds");
  const id = `option${pointer}`;
  const base = { id, "data-pointer": pointer, "aria-describedby": `${id}-hint` };
  const hint = element("p", { class: "hint", id: `${id}-hint` }, forPeople(schema.description ?? plain.description ?? ""));
  const wrap = (shape, kind, ...children) =>
    element("div", { class: kind, "data-key": key, "data-shape": shape }, ...children);
  const labelled = (shape, input, kind = "") =>
    wrap(shape, kind, element("label", { for: id }, title), input, hint);

  if (plain.$ref) return replayControl(title, base, hint, plain, pointer, wrap);
  if (key === "schedulers") return schedulersControl(title, base, hint, wrap);
  if (key === "changes") return changesControl(base, hint, wrap);
  const choices = choicesOf(key, plain);
  if (choices) {
    const optional = schema.default === undefined || schema.default === null;
    const options = (optional ? ["", ...choices] : choices).map((one) =>
      element("option", { value: one, selected: one === schema.default }, one || "(default)"),
    );
    return labelled("text", element("select", base, ...options));
  }
  if (plain.type === "boolean") {
    const box = element("input", { ...base, type: "checkbox", checked: schema.default === true });
    return wrap("boolean", "check", box, element("label", { for: id }, title), hint);
  }
  const shape = { integer: "number", number: "number", array: "numbers" }[plain.type] ?? "text";
  const mode = shape === "number" ? { inputmode: "decimal" } : {};
  const input = element("input", { ...base, ...mode, autocomplete: "off" });
  input.value = schema.default ?? "";
  return labelled(shape, input);
}

function choicesOf(key, schema) {
  if (schema.enum) return schema.enum;
  if (key === "formulation") return catalogue.formulations;
  if (key === "objective") return catalogue.objectives;
  if (key === "scheduler" || key === "other_scheduler") return catalogue.schedulers;
  return null;
}

/** A part of the request that may be left out: a box to tick, and its own options. */
function replayControl(title, base, hint, plain, pointer, wrap) {
  const { properties } = schemas[plain.$ref.split("/").pop()];
  const box = element("input", { ...base, type: "checkbox" });
  const inner = element(
    "div",
    { class: "options", hidden: true },
    ...Object.keys(properties).map((key) => control(key, properties[key], `${pointer}/${key}`)),
  );
  box.addEventListener("change", () => {
    inner.hidden = !box.checked;
  });
  const line = element("div", { class: "check" }, box, element("label", { for: base.id }, title));
  return wrap("object", "wide", line, hint, inner);
}

function schedulersControl(title, base, hint, wrap) {
  const boxes = catalogue.schedulers.map((name) => {
    const id = `${base.id}-${name}`;
    const box = element("input", { id, type: "checkbox", value: name, checked: CHOSEN.includes(name) });
    return element("div", { class: "check" }, box, element("label", { for: id }, name));
  });
  const choices = element("div", { class: "choices" }, ...boxes);
  const set = element(
    "fieldset",
    { ...base, tabindex: "-1" },
    element("legend", {}, title),
    choices,
    hint,
  );
  return wrap("names", "wide", set);
}

function changesControl(base, hint, wrap) {
  const area = element("textarea", { ...base, rows: "3", spellcheck: "false" });
  area.value = "demand=+20%";
  const label = element("label", { for: base.id }, "changes, one a line");
  const rows = catalogue.changes.flatMap(({ text, meaning }) => [
    element("div", {}, element("dt", {}, meaning), element("dd", {}, text)),
  ]);
  const help = element(
    "details",
    {},
    element("summary", {}, "What can be changed"),
    element("dl", { class: "facts" }, ...rows),
  );
  return wrap("lines", "wide", label, area, hint, help);
}

/** What a field means, without what it may be for programs. */
const forPeople = (text) => text.replace(/; programs may .*/, ".");

const withoutNull = (schema) =>
  schema.anyOf?.find((one) => one.type !== "null") ?? schema.allOf?.[0] ?? schema;
