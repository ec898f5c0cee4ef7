// One conversation: what was said, and the run that is going, followed to its end whatever becomes of the connection.

import { connection, isUnreachable, reason, refusal } from "./client.js";
import { pendingIn } from "./interrupts.js";
import { pause } from "./parts.js";
import { plain } from "./text.js";
import { t } from "./texts.js";

const RETRIES = 8;
const STREAMED = { stream_mode: ["messages-tuple", "updates"], stream_resumable: true };
const LOST = t("conversation.lost");
const STOPPED = t("conversation.stopped");
const CANCELED = ["CancelledError", "UserInterrupt", "UserRollback"];
// By the class of an error, which is all that the server says of it: what a person can do about it.
const REASONS = [
  [/Authentication|PermissionDenied|Unauthorized|Forbidden/, t("conversation.key_refused")],
  [/RateLimit|ResourceExhausted|Overloaded/, t("conversation.busy")],
  [/SilentModel|RunTooLong|Timeout/, t("conversation.too_long")],
  [/CutAnswer|BadAnswer/, t("conversation.broke_off")],
  [/Connect|InternalServer|ServiceUnavailable|APIStatus/, t("conversation.unreachable")],
  [/BadRequest|InvalidRequest|ContextOverflow|RequestTooLarge/, t("conversation.refused")],
  [/NotFound/, t("conversation.no_model")],
  [/TokenBudget/, t("conversation.used_up")],
  [/GraphRecursion/, t("conversation.too_many_steps")],
];
const FAILED = t("conversation.failed");
const GONE = t("conversation.gone");
// Of these the server says why, in a sentence for people.
const EXPLAINED = /^(FilteredAnswer|EmptyAnswer)Error$/;
/** Why an answer failed, as far as a person may know. */
function because(kind, message) {
  const why = EXPLAINED.test(kind) ? message : REASONS.find(([pattern]) => pattern.test(kind))?.[1];
  return t("conversation.no_answer", { why: String(why || FAILED) });
}
const notSent = (error) => Promise.reject(refusal(409, t("conversation.not_sent", { why: reason(error) })));
const NOW = [429, 502, 503, 504]; // what a server refuses now, and not a little later

/** A conversation with one of the `agents`. Calls `changed()` when there is something new to show, `decided()` to wait for decisions before it sends, `wrote()` after a tool was used, `answered()` at the end. */
export function conversation(client, agents, { changed, decided, wrote, answered }) {
  // `metadata` is of the thread that the first message makes, `agent` whom it is with, `draft` what is in the message box.
  const talk = { agents, agent: agents[0], id: null, messages: new Map(), metadata: {}, isLoading: false, isGoing: false, isStopping: false, note: "", hasFailed: false, draft: "", interrupts: [] };
  let pending = ""; // what was sent, until it has arrived
  let run = null;
  let isStopped = false;
  let leaving = new AbortController();

  const set = (changes) => (Object.assign(talk, changes), changed());
  /** Why it does not go on; in place of a conversation that is not there, a new one. */
  const ended = (error, statuses = [404]) =>
    statuses.includes(error.status) ? { id: null, messages: new Map(), note: GONE } : { note: reason(error) };
  const unsent = () => [pending, talk.draft].filter(Boolean).join("\n");

  /** Stop following; the run goes on. */
  function leave() {
    leaving.abort();
    leaving = new AbortController();
  }

  /** Show another conversation, or with null a new one. A run that is going there is joined. */
  async function open(id, metadata = {}) {
    leave();
    run = null;
    pending = "";
    set({ id, metadata, messages: new Map(), isLoading: Boolean(id), isGoing: false, isStopping: false, note: "", hasFailed: false, interrupts: [] });
    const { signal } = leaving;
    try {
      const isOver = !id || (await load(signal));
      talk.isLoading = false;
      if (!isOver) await follow(signal);
    } catch (error) {
      if (signal.aborted) return;
      Object.assign(talk, { isLoading: false }, ended(error, [403, 404, 422]));
    }
    changed();
  }

  /** The server is back: what could not be shown or followed is, and what says that it is away goes. */
  function comeBack() {
    if (!isUnreachable(talk.note)) return;
    if (talk.id) open(talk.id, talk.metadata);
    else set({ note: "" });
  }
  connection.addEventListener("back", comeBack);

  /** Follow nothing any more. */
  function end() {
    connection.removeEventListener("back", comeBack);
    leave();
  }

  /** Go on where an earlier session of the same person ended. What was not sent is in the message box. */
  function resume(before, id) {
    talk.draft = before.unsent();
    open(id, before.metadata);
  }

  /** Send what is in the message box and follow the answer. What did not arrive is there again afterwards. */
  async function say() {
    const text = talk.draft.trim();
    if (!text || talk.isGoing) return;
    pending = text;
    talk.messages.set("sent", { id: "sent", type: "human", content: text });
    set({ draft: "" });
    await ask({ messages: [{ role: "user", content: text }] });
  }

  /** Have the last message answered once more, after an answer that failed. It is not sent twice. */
  async function retry() {
    const lost = talk.messages.get("sent")?.content;
    if (talk.isGoing) return;
    if (!lost) return ask(null);
    talk.messages.delete("sent");
    talk.draft = [lost, talk.draft].filter(Boolean).join("\n");
    await say();
  }

  /** Answer what waits, by the ids of the interrupts, and follow what comes of it. What was refused can be answered again. */
  async function answer(resume) {
    if (talk.isGoing) return;
    await ask(null, { command: { resume } });
    if (run) return;
    talk.interrupts = talk.id ? await pendingIn(client, talk.id).catch(() => talk.interrupts) : [];
    set({ hasFailed: false });
  }

  /** Run with this input, null to go on where the last run ended, and follow the answer. */
  async function ask(input, options = {}) {
    run = null;
    isStopped = false;
    set({ note: "", hasFailed: false, isGoing: true });
    const { signal } = leaving;
    const send = (path, body) => client.json("POST", path, { body, signal });
    try {
      await decided().catch(notSent); // who has paused memory means what they send next, too
      talk.id ??= (await send("/threads", { metadata: talk.metadata })).thread_id;
      run = (await send(`/threads/${talk.id}/runs`, { assistant_id: talk.agent, input, ...STREAMED, ...options })).run_id;
    } catch (error) {
      if (signal.aborted) return;
      if (error.status || !(await going().catch(() => null))) { // without an answer it may have arrived all the same
        talk.messages.delete("sent");
        Object.assign(talk, { draft: unsent(), isGoing: false, hasFailed: !input }, ended(error));
      }
    }
    pending = "";
    if (run && input) talk.interrupts = []; // who goes on talking answers nothing
    if (run) await follow(signal);
    else changed();
  }

  /** End the answer that is coming. What it said so far stays on the page. */
  async function stop() {
    if (talk.isStopping) return;
    set({ isStopping: true });
    try {
      isStopped = true;
      if (await going()) await client.send("POST", `/threads/${talk.id}/runs/${run}/cancel`);
    } catch (error) {
      isStopped = false;
      set({ note: reason(error), isStopping: false });
    }
  }

  async function follow(signal) {
    const seen = new Set();
    let last = "-1"; // from the start
    set({ isGoing: true });
    for (let tries = 0, isOver = false; !isOver; ) {
      try {
        const options = { headers: { "last-event-id": last }, signal };
        if (await going(signal))
          for await (const event of client.events(`/threads/${talk.id}/runs/${run}/stream`, options)) {
            tries = 0;
            last = event.id ?? last;
            take(event, seen);
            changed();
          }
        isOver = await load(signal);
      } catch (error) {
        if (signal.aborted) return;
        isOver = (error.status && !NOW.includes(error.status)) || ++tries > RETRIES;
        Object.assign(talk, isOver ? ended(error) : { note: LOST });
      }
      changed();
      if (!isOver) await pause(Math.min(300 * 2 ** tries, 5000));
    }
    set({ isGoing: false, isStopping: false });
    wrote();
    answered();
  }

  /** The id of the run that is going; a false value where there is none. */
  async function going(signal) {
    if (run || !talk.id) return run;
    const runs = await client.json("GET", `/threads/${talk.id}/runs`, { query: { limit: 10 }, signal });
    return (run = runs.find(({ status }) => ["running", "pending"].includes(status))?.run_id);
  }

  /** What was said, as the server keeps it. Whether no run is going. */
  async function load(signal) {
    const thread = await client.json("GET", `/threads/${talk.id}`, { signal });
    if (agents.includes(thread.metadata?.graph_id)) talk.agent = thread.metadata.graph_id;
    const isOver = thread.status !== "busy";
    if (!isOver && talk.messages.size) return false;
    const kept = (thread.values?.messages ?? []).filter((message) => message?.id);
    const sent = talk.messages.get("sent");
    const isSent = ({ id, content }) => content === sent?.content && !talk.messages.has(id);
    const isLost = sent && !kept.some(isSent);
    const ids = new Set(kept.map(({ id }) => id));
    const cut = isStopped ? [...talk.messages.values()].filter(({ id, type }) => type === "ai" && !ids.has(id)) : [];
    talk.messages = new Map([...kept, ...cut].map((message) => [message.id, message]));
    if (isLost) talk.messages.set("sent", sent);
    talk.metadata = thread.metadata?.temporary ? { temporary: true } : {};
    if (talk.note === LOST) talk.note = "";
    talk.interrupts = isOver && Object.keys(thread.interrupts ?? {}).length ? await pendingIn(client, talk.id, signal) : [];
    if (isOver && isStopped) talk.note = STOPPED;
    else if (thread.status === "error") fail(thread.error);
    return isOver;
  }

  function fail(error) {
    const { error: kind, message } = typeof error === "string" ? { error } : (error ?? {});
    if (!CANCELED.includes(kind)) Object.assign(talk, { note: because(String(kind ?? ""), message), hasFailed: true });
  }

  function take({ event, data }, seen) {
    if (event === "error") fail(data);
    else if (event.startsWith("messages")) piece(data[0], seen);
    else if (event === "updates" && !data.__interrupt__) Object.values(data).flatMap((node) => node?.messages ?? []).forEach(whole);
  }

  function piece(part, seen) {
    if (part.type !== "AIMessageChunk") return whole(part);
    const known = talk.messages.get(part.id);
    const before = seen.has(part.id) ? plain(known?.content) : ""; // a stream that is joined begins anew
    seen.add(part.id);
    talk.messages.set(part.id, { ...known, id: part.id, type: "ai", content: before + plain(part.content) });
  }

  function whole(message) {
    if (!message?.id || !["ai", "tool"].includes(message.type)) return;
    talk.messages.set(message.id, message);
    if (message.type === "tool") wrote();
  }

  return Object.assign(talk, { client, set, open, resume, say, answer, retry, stop, end, unsent });
}
