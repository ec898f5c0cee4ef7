// One conversation: what was said, and the run that is going, followed to its end whatever becomes of the connection.

import { attachedTo, ownWords, written } from "./attachments.js";
import { connection, isUnreachable, reason, refusal } from "./client.js";
import { pendingIn } from "./interrupts.js";
import { pause } from "./parts.js";
import { plain } from "./text.js";
import { t } from "./texts.js";
import { forgetUnsent, keepUnsent, takeUnsent } from "./unsent.js";

const RETRIES = 8;
const STREAMED = { stream_mode: ["messages-tuple", "updates"], stream_resumable: true };
const LOST = t("conversation.lost");
const STOPPED = t("conversation.stopped");
const UNANSWERED = t("conversation.unanswered");
const CANCELED = ["CancelledError", "UserInterrupt", "UserRollback"];
// By the class of an error, which is all that the server says of it: what a person can do about it.
const REASONS = [
  [/Authentication|PermissionDenied|Unauthorized|Forbidden/, t("conversation.key_refused")],
  [/RateLimit|ResourceExhausted|Overloaded/, t("conversation.busy")],
  [/SilentModel|RunTooLong|Timeout/, t("conversation.too_long")],
  [/CutAnswer|BadAnswer/, t("conversation.broke_off")],
  [/Payment/, t("conversation.unpaid")],
  [/Connect|InternalServer|ServiceUnavailable|APIStatus|APIError/, t("conversation.unreachable")],
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

/** Whether two messages say the same. Ids and the order of fields are the server's. */
const isSame = (one, other) => plain(one.content) === plain(other.content) && one.content.length === other.content.length;
const isSpoken = ({ type, content }) => type === "ai" && plain(content).trim() !== "";
const stoppedPiece = ({ id, content, response_metadata: about }) => ({ type: "ai", id, content: plain(content), response_metadata: about });

/** A conversation of `person` with one of the `agents`. Calls `changed()` when there is something new to show, `decided()` to wait for decisions before it sends, `wrote()` after a tool was used, `answered()` at the end. */
export function conversation(client, agents, { person, changed, decided, wrote, answered }) {
  // `metadata` is of the thread that the first message makes, `agent` whom it is with, `draft` what is in the message box, `attached` what goes with it.
  const talk = { agents, agent: agents[0], id: null, messages: new Map(), metadata: {}, isLoading: false, isGoing: false, isStopping: false, note: "", hasFailed: false, draft: "", attached: [], interrupts: [], isHistory: false };
  let pending = null; // { text, attached } of what was sent, until it has arrived
  let replaced = null; // the messages from before the last one was replaced, as long
  let left = takeUnsent(person); // what a reload found on its way
  let run = null;
  let isStopped = false;
  let leaving = new AbortController();

  const set = (changes) => (Object.assign(talk, changes), changed());
  /** Why it does not go on; in place of a conversation that is not there, a new one. */
  const ended = (error, statuses = [404]) =>
    statuses.includes(error.status) ? { id: null, messages: new Map(), note: GONE } : { note: reason(error) };
  const unsent = () => ({
    draft: [pending?.text, talk.draft].filter(Boolean).join("\n"),
    attached: [...(pending?.attached ?? []), ...talk.attached],
  });

  /** Stop following; the run goes on. */
  function leave() {
    leaving.abort();
    leaving = new AbortController();
    forgetUnsent();
  }

  /** What a reload found on its way is in the message box again, unless it has arrived: in the thread, or as these messages, which a run that waits was given. */
  function bringBack(waiting) {
    const last = [...talk.messages.values()].findLast(({ type }) => type === "human");
    const hasArrived = [last, ...waiting].some((message) => message && plain(ownWords(message)) === left);
    if (!hasArrived) talk.draft ||= left;
    left = "";
  }

  /** Show another conversation, or with null a new one. A run that is going there is joined. */
  async function open(id, metadata = {}) {
    leave();
    run = null;
    pending = replaced = null;
    set({ id, metadata, messages: new Map(), isLoading: Boolean(id), isGoing: false, isStopping: false, note: "", hasFailed: false, interrupts: [], isHistory: false });
    const { signal } = leaving;
    try {
      const waiting = id && left ? await given(signal) : []; // before the thread is read, which has what a run has begun with
      const isOver = !id || (await load(signal));
      talk.isLoading = false;
      bringBack(waiting);
      if (!isOver || waiting.length) await follow(signal);
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
    Object.assign(talk, before.unsent());
    open(id, before.metadata);
  }

  /** Send what is in the message box and follow the answer. What did not arrive is there again afterwards. */
  async function say() {
    const { attached } = talk;
    const text = talk.draft.trim();
    if ((!text && !attached.length) || talk.isGoing) return;
    set({ draft: "", attached: [] });
    await send(text, attached);
  }

  /** Ask again with other words in place of one's last message. It goes with what followed it, and what is attached to it stays. */
  async function replace(id, text) {
    const ids = [...talk.messages.keys()];
    const gone = ids.slice(ids.indexOf(id));
    const attached = attachedTo(talk.messages.get(id));
    if ((!text.trim() && !attached.length) || talk.isGoing) return;
    replaced = talk.messages;
    talk.messages = new Map([...replaced].filter(([other]) => !gone.includes(other)));
    await send(text.trim(), attached, gone.filter((other) => !replaced.get(other).isUnsent));
  }

  /** Send a message in place of the kept ones with these ids. With it goes what was said before a stop: the model sees it, too. */
  async function send(text, attached, removed = []) {
    pending = { text, attached };
    const message = written(text, attached);
    const pieces = [...talk.messages.values()].filter(({ isUnsent }) => isUnsent);
    talk.messages.set("sent", { id: "sent", ...message });
    changed();
    const input = [...removed.map((id) => ({ type: "remove", id, content: "" })), ...pieces.map(stoppedPiece), message];
    await ask({ messages: input }, removed.length ? { multitask_strategy: "reject" } : {});
  }

  /** Have the last message answered once more, after an answer that failed. It is not sent twice. */
  async function retry() {
    const lost = talk.messages.get("sent");
    if (talk.isGoing) return;
    if (!lost) return ask(null);
    talk.messages.delete("sent");
    talk.draft = [plain(ownWords(lost)), talk.draft].filter(Boolean).join("\n");
    talk.attached = [...attachedTo(lost), ...talk.attached];
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
    if (pending) keepUnsent(person, pending.text);
    try {
      await decided().catch(notSent); // who has paused memory means what they send next, too
      if (!talk.id) set({ id: (await send("/threads", { metadata: talk.metadata })).thread_id });
      run = (await send(`/threads/${talk.id}/runs`, { assistant_id: talk.agent, input, ...STREAMED, ...options })).run_id;
    } catch (error) {
      if (signal.aborted) return;
      if (error.status || !(await going().catch(() => null))) { // without an answer it may have arrived all the same
        talk.messages.delete("sent");
        if (replaced) talk.messages = replaced;
        Object.assign(talk, { ...unsent(), isGoing: false, hasFailed: !input }, ended(error));
      }
    }
    pending = replaced = null;
    forgetUnsent();
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
    const query = { limit: 10, select: ["run_id", "status"] };
    const runs = await client.json("GET", `/threads/${talk.id}/runs`, { query, signal });
    return (run = runs.find(({ status }) => ["running", "pending"].includes(status))?.run_id);
  }

  /** What the run that is going was given: the thread has it once the run has begun. */
  async function given(signal) {
    const id = await going(signal);
    const { kwargs } = id ? await client.json("GET", `/threads/${talk.id}/runs/${id}`, { signal }) : {};
    return kwargs?.input?.messages ?? [];
  }

  /** These messages with those that the run that is going was given. */
  async function withGiven(kept, signal) {
    const messages = await given(signal);
    const removed = messages.filter(({ type }) => type === "remove").map(({ id }) => id);
    const left = kept.filter(({ id }) => !removed.includes(id));
    const asked = messages.findLast(({ type, role }) => type === "human" || role === "user");
    const last = left.findLast(({ type }) => type === "human");
    return !asked || (last && isSame(last, asked)) ? left : [...left, { ...asked, id: "sent", type: "human" }];
  }

  /** What was said, as the server keeps it. Whether no run is going. */
  async function load(signal) {
    const thread = await client.json("GET", `/threads/${talk.id}`, { signal });
    if (agents.includes(thread.metadata?.graph_id)) talk.agent = thread.metadata.graph_id;
    const isOver = thread.status !== "busy";
    if (!isOver && talk.messages.size) return false;
    let kept = (thread.values?.messages ?? []).filter((message) => message?.id);
    if (!isOver) kept = await withGiven(kept, signal);
    const sent = talk.messages.get("sent");
    const isSent = (message) => sent && isSame(message, sent) && !talk.messages.has(message.id);
    const isLost = sent && !kept.some(isSent);
    const ids = new Set(kept.map(({ id }) => id));
    const cut = isStopped ? [...talk.messages.values()].filter((message) => !ids.has(message.id) && isSpoken(message)) : [];
    const pieces = cut.map((message) => ({ ...message, isUnsent: true, response_metadata: { stopped: true } }));
    talk.messages = new Map([...kept, ...pieces].map((message) => [message.id, message]));
    if (isLost) talk.messages.set("sent", sent);
    talk.metadata = thread.metadata?.temporary ? { temporary: true } : {};
    talk.isHistory = Boolean(thread.metadata?.imported); // to read: no run goes on there
    if (talk.note === LOST) talk.note = "";
    talk.interrupts = isOver && Object.keys(thread.interrupts ?? {}).length ? await pendingIn(client, talk.id, signal) : [];
    if (isOver && isStopped) talk.note = pieces.length ? "" : STOPPED; // a piece says so itself
    else if (thread.status === "error") fail(thread.error);
    else if (isOver && !talk.isHistory && !talk.interrupts.length && kept.at(-1)?.type === "human") Object.assign(talk, { note: talk.note || UNANSWERED, hasFailed: true });
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

  return Object.assign(talk, { client, set, open, resume, say, replace, answer, retry, stop, end, unsent });
}
