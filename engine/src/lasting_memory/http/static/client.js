// The server, as one person: JSON requests, and a run's events as they come. The token is in here and nowhere else.

import { t } from "./texts.js";
import { reasonOf } from "./words.js";

const BASE = new URL(".", location.origin + location.pathname);

/** An answer of the server that is no success; the message is a sentence for people. */
export const refusal = (status, message) => Object.assign(new Error(message), { status });

const UNREACHABLE = t("client.unreachable");
/** Whether a sentence says that the server cannot be reached. */
export const isUnreachable = (text) => String(text).endsWith(UNREACHABLE);

/** What went wrong, in a sentence with what to do. */
export function reason(error) {
  if (error.status) return error.message;
  if (error instanceof SyntaxError) return t("client.no_json");
  return UNREACHABLE;
}

/** What to take in place of an answer that was refused with this status. */
export const instead = (status, value) => (error) => (error.status === status ? value : Promise.reject(error));

// After a request that found no server: "there" once one answers, and "back" if it had been away in between.
export const connection = new EventTarget();
const LOOK_MILLISECONDS = 1_000;
const LONGEST_LOOK_MILLISECONDS = 15_000;
let isLooking = false;

async function lookForServer() {
  if (isLooking) return;
  isLooking = true;
  let tries = 0;
  const isThere = () => fetch(new URL("app/texts", BASE), { method: "HEAD", cache: "no-store", credentials: "omit" }).then(() => true, () => false);
  do await new Promise((done) => setTimeout(done, Math.min(LOOK_MILLISECONDS * 2 ** tries++, LONGEST_LOOK_MILLISECONDS)));
  while (!(await isThere()));
  isLooking = false;
  connection.dispatchEvent(new Event("there"));
  if (tries > 1) connection.dispatchEvent(new Event("back"));
}

const lost = (error) => {
  if (error.name !== "AbortError") lookForServer();
  throw error;
};

/** A session, as `connect` takes it, by one token that nobody can renew. */
export const byToken = (token) => ({ token: () => token, renew: () => false, signOut: () => {}, only: token });

/** Requests with a session's token; `onSignedOut(why)` is called when it cannot be renewed, or the server takes it no more. */
export function connect(session, onSignedOut) {
  /** What `ask` gives, which may say that the session is over. */
  const ofSession = async (ask) => {
    try {
      return await ask();
    } catch (error) {
      if (error.status === 401) onSignedOut(error.message);
      throw error;
    }
  };

  /** The response to a request. Throws a `refusal`; another error where there is no connection. */
  async function send(method, path, { query = {}, body, headers = {}, signal } = {}) {
    const url = new URL(path.slice(1), BASE);
    for (const [name, values] of Object.entries(query)) for (const value of [values].flat()) url.searchParams.append(name, value);
    const text = body && JSON.stringify(body);
    const ask = async () => {
      const token = await ofSession(session.token);
      const sent = { ...headers, authorization: `Bearer ${token}`, ...(body && { "content-type": "application/json" }) };
      return fetch(url, { method, headers: sent, body: text, signal, cache: "no-store", credentials: "omit" }).catch(lost);
    };
    let response = await ask();
    if (response.status === 401 && (await ofSession(session.renew))) response = await ask();
    if (response.ok) return response;
    const { detail } = await response.json().catch(() => ({}));
    const told = typeof detail === "string" && detail ? detail : t("client.refused", { status: String(response.status) });
    const said = reasonOf(response.headers.get("x-refusal-kind")) ?? told;
    if (response.status === 401) onSignedOut(said);
    throw refusal(response.status, said);
  }

  /** The JSON that a request is answered with; null where there is none. */
  async function json(method, path, options) {
    const text = await (await send(method, path, options)).text();
    return text.trim() ? JSON.parse(text) : null;
  }

  /** The server-sent events of an answer, as they come: { id, event, data }. */
  async function* events(path, options) {
    const reader = (await send("GET", path, options)).body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    try {
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const blocks = (text + part.value).replaceAll("\r\n", "\n").split("\n\n");
        text = blocks.pop();
        yield* blocks.map(parsed).filter(({ event }) => event);
      }
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  /** The lines of JSON of an answer, as they come. Throws a `refusal` for one that is an error, with `status` and `detail`. */
  async function* lines(method, path, { headers, ...options }) {
    const sent = { ...options, headers: { ...headers, accept: "application/x-ndjson" } };
    const reader = (await send(method, path, sent)).body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    try {
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const whole = (text + part.value).split("\n");
        text = whole.pop();
        for (const line of whole) {
          const value = JSON.parse(line);
          if (value.detail) throw refusal(value.status, value.detail);
          yield value;
        }
      }
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  return { send, json, events, lines };
}

function parsed(block) {
  const lines = block.split("\n").map((line) => line.match(/^(\w*): ?(.*)$/s)?.slice(1) ?? []);
  const { id, event, data } = Object.fromEntries(lines);
  return { id, event, data: data ? JSON.parse(data) : null };
}
