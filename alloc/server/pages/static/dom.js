// Elements and texts. Everything goes in as text, never as markup.

export const byId = (id) => document.getElementById(id);

/** Make an element with attributes and children; a child that is no node becomes text. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** Say something to those who listen to the page. */
export function announce(words) {
  byId("status").textContent = words;
}

/** Show a view that the server has made; it escapes all names, and its page runs no script. */
export function showView(place, html) {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  place.replaceChildren(...parsed.body.childNodes);
}

/** Hand a file to the person. */
export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Words of a name with underscores. */
export const words = (name) => name.replaceAll("_", " ");
