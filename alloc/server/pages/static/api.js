// The server's API: requests with the token, problems, and the events of a job.

export const UNAUTHORIZED = 401;
/** Name of the event when the server wants a token, or another one. */
export const LOCKED_OUT = "alloc:locked-out";
const KEY = "alloc-token";
const RETRY_MS = 1000;

/** What the server answers when it cannot do what was asked (RFC 9457). */
export class Problem extends Error {
  constructor(document, status) {
    super(document.detail ?? `the server answered ${status}; try again.`);
    this.status = status;
    this.errors = document.errors ?? [];
  }
}

export function keepToken(token) {
  sessionStorage.setItem(KEY, token);
}

export function forgetToken() {
  sessionStorage.removeItem(KEY);
}

async function ask(address, { headers, ...more } = {}) {
  const token = sessionStorage.getItem(KEY);
  const access = token === null ? {} : { Authorization: `Bearer ${token}` };
  let response;
  try {
    response = await fetch(address, { ...more, headers: { ...headers, ...access } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ detail: "the server does not answer; see whether it runs." }, 0);
  }
  if (response.ok) return response;
  const problem = new Problem(await response.json().catch(() => ({})), response.status);
  if (problem.status === UNAUTHORIZED) {
    document.dispatchEvent(new CustomEvent(LOCKED_OUT, { detail: problem }));
  }
  throw problem;
}

export const getJson = async (address) => (await ask(address)).json();
export const getText = async (address) => (await ask(address)).text();
export const getBlob = async (address) => (await ask(address)).blob();
export const getItems = async (address) => (await getJson(address)).items;

/** Send a body, given as text, and return the job. */
export async function submit(operation, body, label) {
  const query = label ? `?${new URLSearchParams({ label })}` : "";
  const response = await ask(`/v1/${operation}${query}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body,
  });
  return response.json();
}

/** Run a job to its end, and return what came of it and the job; `onLine(text)` hears how far it is. */
export async function runJob(operation, body, onLine) {
  const accepted = await submit(operation, JSON.stringify(body), "");
  const job = await watch(accepted, { onStatus: () => {}, onLine });
  if (job.state !== "done") {
    throw new Problem(job.problem ?? { detail: `the job is ${job.state}; try again.` }, 0);
  }
  return { job, result: await getJson(job.links.result) };
}

export const cancel = async (job) => (await ask(job.links.cancel, { method: "POST" })).json();

/** Call `onStatus(job)` and `onLine(text)` until the job has ended; return the job then. */
export async function watch(job, { onStatus, onLine }) {
  let last = null;
  let latest = job;
  while (!ended(latest)) {
    try {
      const headers = last === null ? {} : { "Last-Event-ID": last };
      const response = await ask(job.links.events, { headers });
      if (response.status === 204) return getJson(job.links.self);
      for await (const event of events(response.body)) {
        last = event.id;
        const data = JSON.parse(event.data);
        if (event.kind === "progress") onLine(data.line);
        else if (event.kind === "status") {
          latest = data;
          onStatus(latest);
        }
      }
    } catch (problem) {
      // A lost connection is taken up again where it broke; a refusal is not.
      if (problem instanceof Problem && problem.status >= 400) throw problem;
    }
    if (!ended(latest)) await new Promise((done) => setTimeout(done, RETRY_MS));
  }
  return latest;
}

export const ended = (job) => !["queued", "running"].includes(job.state);

/** Read server-sent events. EventSource cannot send a token. */
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value.replaceAll("\r", "")).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const event = { kind: "message", id: null, data: "" };
      for (const line of block.split("\n")) {
        const [, name, text] = /^(\w+): ?(.*)$/.exec(line) ?? [];
        if (name === "event") event.kind = text;
        else if (name === "id") event.id = text;
        else if (name === "data") event.data += text;
      }
      if (event.data) yield event;
    }
  }
}
