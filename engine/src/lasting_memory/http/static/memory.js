// What is remembered, and what has just changed of it: each file, compared with what it was at the last look.

import { instead, reason } from "./client.js";

/** `changed()` is called when there is something new to show; `version` has gone up then. */
export function watched(client, changed) {
  // `changes` are by path, the newest last: { path, revision, before, author, at, deleted, diff }
  const memory = { files: null, usage: null, changes: new Map(), problem: "", version: 0 };
  let known = null; // revisions by path
  let looking = null;
  let again = false;

  const set = (changes) => (Object.assign(memory, changes, { version: memory.version + 1 }), changed());

  /** Look what is there now. `quiet` is a path whose change need not be pointed out. */
  function refresh(quiet) {
    again = true;
    looking ??= look(quiet);
    return looking;
  }

  async function look(quiet) {
    while (again) {
      again = false;
      await compare(quiet).then(() => set({ problem: "" }), (error) => set({ problem: reason(error) }));
    }
    looking = null; // at once: who asks from now on is not told of this look
  }

  async function compare(quiet) {
    const { files, usage } = await client.json("GET", "/memory");
    const now = new Map(files.map((file) => [file.path, file.revision ?? 0]));
    const before = known ?? now;
    Object.assign(memory, { files, usage });
    for (const path of new Set([...before.keys(), ...now.keys()])) {
      if (before.get(path) === now.get(path)) continue;
      memory.changes.delete(path);
      if (path !== quiet) await note(path, before.get(path));
    }
    known = now; // only now: what could not be looked up is looked up the next time
  }

  async function note(path, since) {
    const forgotten = instead(404, { revisions: [] });
    const { revisions } = await client.json("GET", "/memory/history", { query: { path } }).catch(forgotten);
    const recent = since ? revisions.filter((entry) => entry.revision > since) : revisions.slice(0, 1);
    if (!recent.length) return;
    const [{ revision, author, at, deleted }] = recent;
    const diff = recent.map((entry) => entry.diff ?? "").reverse().join("");
    memory.changes.set(path, { path, revision, before: recent.at(-1).revision - 1, author, at, deleted, diff });
  }

  /** Send a change of memory, then look what is there. The server's answer; `quiet` as above. */
  async function change(method, at, options, quiet) {
    const answer = await client.json(method, at, options).catch((error) => refresh().then(() => Promise.reject(error)));
    await refresh(quiet);
    return answer;
  }

  /** Make a file what it was before a change, unless somebody has changed it since. */
  function undo({ path, before, revision, deleted }) {
    const headers = { "if-match": deleted ? "0" : String(revision) };
    if (before) return change("POST", "/memory/undo", { body: { path, revision: before }, headers }, path);
    return change("DELETE", "/memory/file", { query: { path }, headers }, path);
  }

  /** Stop pointing out what has changed. */
  const seen = () => set({ changes: new Map() });

  return Object.assign(memory, { refresh, change, undo, seen });
}
