// What is remembered, and what changed of it since this person last looked.

import { reason, refusal } from "./client.js";

const MARKER = /^([-*+]|\d{1,9}[.)])\s+/;

/** The text of a file's line, as facts have it, without the source that may follow. */
const isOf = (line, text) => {
  const said = line.trim().replace(MARKER, "");
  return said === text || said.startsWith(`${text} (`);
};

/** `changed()` is called when there is something new to show; `version` has gone up then. */
export function watched(client, changed) {
  // `changes` are by path, the newest first: { path, revision, before, author, at, deleted, diff }; `isEarlier`: one of them was
  // made before this visit.
  const memory = { groups: null, shared: [], usage: null, changes: new Map(), isEarlier: false, problem: "", version: 0 };
  const quiet = new Map(); // by path: the newest revision that was made here, and need not be pointed out
  let known = null; // revisions by path
  let arrived = null; // when, by the server's clock
  let until = null; // when the changes were asked for
  let looking = null;
  let again = false;

  const set = (changes) => (Object.assign(memory, changes, { version: memory.version + 1 }), changed());

  /** Look what is there now. */
  function refresh() {
    again = true;
    looking ??= look();
    return looking;
  }

  async function look() {
    while (again) {
      again = false;
      await compare().then(() => set({ problem: "" }), (error) => set({ problem: reason(error) }));
    }
    looking = null; // at once: who asks from now on is not told of this look
  }

  async function compare() {
    const { groups, usage, shared } = await client.json("GET", "/memory/facts");
    const now = new Map(groups.map((group) => [group.path, group.revision ?? 0]));
    const isSame = known?.size === now.size && [...now].every(([path, revision]) => known.get(path) === revision);
    Object.assign(memory, { groups, usage, shared });
    if (!isSame) await compareChanges();
    known = now; // only now: what could not be looked up is looked up the next time
  }

  async function compareChanges() {
    const told = await client.json("GET", "/memory/changes");
    arrived ??= told.until;
    // One knows what one did oneself: here, or before one came.
    const isNew = ({ path, revision, author, at }) =>
      revision > (quiet.get(path) ?? 0) && (author.kind !== "person" || at > arrived);
    until = told.until;
    const fresh = told.changes.filter(isNew);
    Object.assign(memory, { changes: new Map(fresh.map((each) => [each.path, each])), isEarlier: fresh.some(({ at }) => at < arrived) });
  }

  /** Send a change of memory, then look what is there. `path`: the file whose change need not be pointed out. */
  async function change(method, at, options, path) {
    const answer = await client.json(method, at, options).catch((error) => refresh().then(() => Promise.reject(error)));
    if (path) quiet.set(path, answer?.revision ?? 0);
    await refresh();
    if (path && memory.changes.delete(path)) set({});
    return answer;
  }

  /** Make a file what it was before a change, unless somebody has changed it since. */
  function undo({ path, before, revision, deleted }) {
    const headers = { "if-match": deleted ? "0" : String(revision) };
    if (before) return change("POST", "/memory/undo", { body: { path, revision: before }, headers }, path);
    return change("DELETE", "/memory/file", { query: { path }, headers }, path);
  }

  /** Put another text in place of a line of a file, or with null nothing. What others changed meanwhile stays. */
  async function rewrite(path, { line, text }, other) {
    for (let tries = 2; ; tries--) {
      const { content, revision } = await client.json("GET", "/memory/file", { query: { path } });
      const lines = content.split("\n");
      const at = lines[line] && isOf(lines[line], text) ? line : lines.findIndex((each) => isOf(each, text));
      if (at < 0) throw refusal(409, "Somebody else changed this line meanwhile; look at it again.");
      const prefix = lines[at].slice(0, lines[at].indexOf(text));
      lines.splice(at, 1, ...(other === null ? [] : [prefix + other]));
      const headers = revision ? { "if-match": String(revision) } : {};
      const put = { query: { path }, body: { content: lines.join("\n") }, headers };
      try {
        return await change("PUT", "/memory/file", put, other === null ? undefined : path);
      } catch (error) {
        if (error.status !== 412 || !tries) throw error;
      }
    }
  }

  /** Put a line at the end of a file. */
  async function add(path, text) {
    const { content, revision } = await client.json("GET", "/memory/file", { query: { path } });
    const gap = content && !content.endsWith("\n") ? "\n" : "";
    const headers = revision ? { "if-match": String(revision) } : {};
    await change("PUT", "/memory/file", { query: { path }, body: { content: `${content}${gap}- ${text}\n` }, headers }, path);
  }

  /** Stop pointing out what has changed, also the next time. */
  async function seen() {
    set({ changes: new Map() });
    if (until) await client.json("PUT", "/memory/seen", { body: { until } });
  }

  return Object.assign(memory, { refresh, change, undo, rewrite, add, seen });
}
