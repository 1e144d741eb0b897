// JSON pointers (RFC 6901): where a value is in a document.

export const join = (pointer, step) =>
  `${pointer}/${String(step).replaceAll("~", "~0").replaceAll("/", "~1")}`;

const steps = (pointer) =>
  pointer.split("/").slice(1).map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));

export function valueAt(document, pointer) {
  return steps(pointer).reduce((value, step) => value?.[step], document);
}

/** Set a value whose parent is there. */
export function setAt(document, pointer, value) {
  const path = steps(pointer);
  const last = path.pop();
  const parent = path.reduce((found, step) => found?.[step], document);
  if (parent === undefined || parent === null) return;
  if (value === undefined) delete parent[last];
  else parent[last] = value;
}
