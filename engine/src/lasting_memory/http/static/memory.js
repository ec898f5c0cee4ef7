// What is remembered, and what changed of it since this person last looked.

import { connection, isUnreachable, reason, refusal } from "./client.js";
import { t } from "./texts.js";
import { markerOf, said, withEnd } from "./words.js";

/** Whether a file's line is the one of a fact: of a table its row, of everything else what it says. */
const isOf = (line, { text, until, raw }) => (raw === undefined ? said(line.trim()) === withEnd(text, until) : line.trim() === raw);

/** `changed()` is called when there is something new to show; `version` has gone up then. */
export function watched(client, changed) {
  // `changes`, the newest first: { key, path, revision, author, at, deleted, diff, changes }, the last of which are ids to take back;
  // `waiting`: how many proposals and offers wait for a yes; `isEarlier`: one of them was made before this visit; `more`: how many older ones there may be.
  const memory = { groups: null, waiting: 0, shared: [], usage: null, changes: [], more: 0, isEarlier: false, problem: "", version: 0 };
  const waits = new Map(); // how many of each wait
  const quiet = new Set(); // keys of what was done here, and need not be pointed out
  let known = null; // revisions by path
  let arrived = null; // when, by the server's clock
  let until = null; // when the changes were asked for
  let looking = null;
  let deciding = Promise.resolve();
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
    const keyed = told.changes.map((each) => ({ ...each, key: `${each.path} ${each.revision}` }));
    // One knows what one did oneself: here, or before one came.
    const isNew = ({ key, author, at }) => author.kind !== "person" || (at > arrived && !quiet.has(key));
    until = told.until;
    const fresh = keyed.filter(isNew);
    Object.assign(memory, { changes: fresh, more: told.more, isEarlier: fresh.some(({ at }) => at < arrived) });
  }

  /** Send a change of memory, then look what is there. `path`: the file whose change need not be pointed out. */
  async function change(method, at, options, path) {
    const answer = await client.json(method, at, options).catch((error) => refresh().then(() => Promise.reject(error)));
    if (path) quiet.add(`${path} ${answer?.revision}`);
    await refresh();
    return answer;
  }

  /** Take back what these revisions of a file changed; what was changed later stays. */
  const undo = ({ path, changes }) => change("POST", "/memory/undo", { body: { path, changes } }, path);

  /**
   * Put another text in place of a line of a file, or with null nothing; a function makes the new line of the line as it stands there.
   * What others changed meanwhile stays.
   */
  async function rewrite({ path, revision: shown }, fact, other) {
    for (let tries = 2; ; tries--) {
      const { content, revision } = await client.json("GET", "/memory/file", { query: { path } });
      const lines = content.split("\n");
      const same = lines.flatMap((each, n) => (isOf(each, fact) ? [n] : []));
      const at = revision === shown ? fact.line : same.length === 1 ? same[0] : -1;
      if (at < 0) {
        await refresh();
        throw refusal(409, t("memory.moved"));
      }
      const marker = fact.raw === undefined ? markerOf(lines[at]) : "";
      const instead = typeof other === "function" ? other(lines[at]) : marker + other;
      lines.splice(at, 1, ...(other === null ? [] : [instead]));
      const headers = revision ? { "if-match": String(revision) } : {};
      const put = { query: { path }, body: { content: lines.join("\n") }, headers };
      try {
        return await change("PUT", "/memory/file", put, other === null ? undefined : path);
      } catch (error) {
        if (error.status !== 412 || !tries) throw error;
      }
    }
  }

  /** Say that a line of a file ({ text }), or a field ({ field, value }), is true. */
  const confirm = ({ path }, said) => change("POST", "/memory/confirm", { query: { path }, body: said }, path);

  /** Put a line at the end of a file. */
  async function add(path, text) {
    const { content, revision } = await client.json("GET", "/memory/file", { query: { path } });
    const gap = content && !content.endsWith("\n") ? "\n" : "";
    const headers = revision ? { "if-match": String(revision) } : {};
    await change("PUT", "/memory/file", { query: { path }, body: { content: `${content}${gap}- ${text}\n` }, headers }, path);
  }

  /** Stop pointing out what has changed, also the next time. */
  async function seen() {
    const { changes, more } = memory;
    set({ changes: [], more: 0 });
    if (!until) return;
    try {
      await client.json("PUT", "/memory/seen", { body: { until } });
    } catch (error) {
      if (!memory.changes.length) set({ changes, more });
      throw error;
    }
  }

  /** Note how many proposals wait, or how many of something else. */
  function wait(count, of = "proposals") {
    waits.set(of, count);
    const waiting = [...waits.values()].reduce((sum, each) => sum + each, 0);
    if (memory.waiting === waiting) return;
    memory.waiting = waiting;
    changed();
  }

  // The page looks again once the server is there again.
  const lookAgain = () => isUnreachable(memory.problem) && refresh();
  connection.addEventListener("there", lookAgain);
  const leave = () => connection.removeEventListener("there", lookAgain);

  /** Do something that a person decided, after what they decided before. */
  function decide(work) {
    const decision = deciding.catch(() => {}).then(work);
    deciding = decision;
    const end = () => {
      if (deciding === decision) deciding = Promise.resolve();
    };
    decision.then(end, end);
    return decision;
  }

  /** Wait for what is being decided. Throws what the server refuses it with. */
  const decided = () => deciding;

  return Object.assign(memory, { refresh, change, undo, rewrite, confirm, add, seen, wait, leave, decide, decided });
}
