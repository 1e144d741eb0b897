// Key numbers: a form for those values of a document that people change most.

import { element, words } from "./dom.js";
import { join, setAt, valueAt } from "./pointer.js";

const MOST = 60;
const UNITS = { s: "s", kw: "kW", mib: "MiB", milli: "thousandths", "per kg": "a kg" };

/** For each kind of document: single values, and lists whose items have values. */
const KEY_NUMBERS = {
  planning: [
    {
      title: "The whole plan",
      fields: [
        "/budget",
        "/num_quarters",
        "/failures",
        "/discount_rate",
        "/carbon_price_per_kg",
        "/epsilon",
      ],
    },
    { title: "Owned", list: "/owned", name: ["offer", "site"], fields: ["/count", "/quarters_left"] },
    { title: "Offer", list: "/offers", name: ["name"], fields: ["/price", "/most_hosts", "/lead_time_quarters"] },
    { title: "Site", list: "/sites", name: ["name"], fields: ["/rack_units", "/ports", "/power_kw"] },
    { title: "Class", list: "/classes", name: ["name"], fields: ["/goal/hours", "/goal/fraction", "/loss_per_job"] },
    { title: "Scenario", list: "/scenarios", name: ["name"], fields: ["/probability"] },
  ],
  instance: [
    { title: "The whole instance", fields: ["/slot_s"] },
    { title: "Host type", list: "/topology/host_types", name: ["name"], fields: ["/num_gpus", "/cpu_milli", "/memory_mib"] },
    { title: "Job", list: "/jobs", name: ["id"], fields: ["/arrival_s", "/work", "/weight", "/deadline_s"] },
  ],
};

/** Fill `place` with inputs for a document; call `onEdit()` when one of them has changed it. */
export function showNumbers(place, content, onEdit) {
  const groups = KEY_NUMBERS[content?.kind] ?? [];
  const made = groups.flatMap((group) => fieldsets(group, content, onEdit));
  const nothing = element("p", { class: "remark" }, "No key numbers in this document.");
  place.replaceChildren(...(made.length ? made : [nothing]));
}

function fieldsets(group, content, onEdit) {
  if (group.list === undefined) {
    return [fieldset(group.title, group.fields, "", content, onEdit, content.name)];
  }
  const items = valueAt(content, group.list);
  if (!Array.isArray(items)) return [];
  const made = items.slice(0, MOST).map((item, position) => {
    const name = group.name.map((part) => item?.[part] ?? "?").join(" @ ");
    const start = join(group.list, position);
    return fieldset(`${group.title} ${name}`, group.fields, start, content, onEdit, name);
  });
  if (items.length > MOST) {
    const more = `${items.length - MOST} more of "${group.title}" in the document.`;
    made.push(element("p", { class: "remark" }, more));
  }
  return made;
}

function fieldset(title, fields, start, content, onEdit, item) {
  const inputs = fields.map((field) => input(start + field, field, content, onEdit, item));
  return element(
    "fieldset",
    {},
    element("legend", {}, title),
    element("div", { class: "numbers" }, ...inputs),
  );
}

function input(pointer, field, content, onEdit, item) {
  const value = valueAt(content, pointer);
  const made = element("input", {
    id: `number${pointer}`,
    inputmode: "decimal",
    autocomplete: "off",
    "data-pointer": pointer,
    "data-field": field.split("/").pop(),
    "data-item": item ?? "",
  });
  made.value = value === undefined || value === null ? "" : value;
  // Assistive tools may fill a field without typing; they report a change.
  for (const kind of ["input", "change"]) {
    made.addEventListener(kind, () => {
      setAt(content, pointer, typed(made.value));
      onEdit();
    });
  }
  const label = element("label", { for: made.id }, labelOf(field));
  return element("div", {}, label, made);
}

/** Words of a field: "/goal/hours" is "goal hours", "/arrival_s" is "arrival, s". */
function labelOf(field) {
  const plain = words(field.slice(1).replaceAll("/", " "));
  const unit = Object.keys(UNITS).find((ending) => plain.endsWith(` ${ending}`));
  const named = plain.replace(/^num /, "").replace("gpus", "GPUs").replace("cpu", "CPU");
  return unit ? `${named.slice(0, -unit.length - 1)}, ${UNITS[unit]}` : named;
}

/** What was typed: a number if it is one, nothing if it is empty; else the text, for the server
 * to say what is wrong with it. */
export function typed(text) {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  const number = Number(trimmed);
  return Number.isFinite(number) ? number : trimmed;
}
