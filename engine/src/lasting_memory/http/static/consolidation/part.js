// What consolidation did, would do and proposes; for operators, what it does over all people.

import { refusal } from "../client.js";
import { html, useState } from "../lib/preact.js";
import { Dialog, pause, useAct, useAsked, useTold } from "../parts.js";
import { Diff, Problem, plural, when } from "../text.js";

const LOOK_MILLISECONDS = 1000;

/** The changes that wait for a decision. */
function Proposals({ session: { client, memory } }) {
  const { told, problem } = useTold(client, "/memory/proposals", {}, memory.version);
  const [isOpen, setOpen] = useState(false);
  const proposals = told?.proposals ?? [];
  return html`${proposals.length > 0 && html`<p><button onClick=${() => setOpen(true)}>Proposed changes
      ${" "}<span class="badge">${proposals.length}</span></button></p>`}
    <${Problem} text=${problem} />
    ${isOpen && html`<${Waiting} memory=${memory} proposals=${proposals} onClose=${() => setOpen(false)} />`}`;
}

function Waiting({ memory, proposals, onClose }) {
  const [problem, act] = useAct();
  const decide = (id, accept, path) => act(async () => {
    const body = { accept, ...(path && { files: [path] }) };
    const { refused } = await memory.change("POST", `/memory/proposals/${id}`, { body });
    const why = Object.values(refused).join(" ");
    if (why) throw refusal(409, why);
  });
  const buttons = (of, id, path) => html`<p class="row">
    <button class="main" aria-label=${`Accept${of}`} onClick=${decide(id, true, path)}>Accept</button>
    <button aria-label=${`Decline${of}`} onClick=${decide(id, false, path)}>Decline</button></p>`;
  const section = ({ id, at, files }, n) => {
    const which = n ? ` proposal ${n + 1}` : "";
    const isOne = Object.keys(files).length === 1;
    const file = ([path, diff]) => html`<article key=${path}><h4>${path}</h4><${Diff} text=${diff} />
      ${!isOne && buttons(` ${path}${which && `,${which}`}`, id, path)}</article>`;
    return html`<section key=${id} aria-label=${`Proposal ${n + 1}`}><h3>${when(at)}</h3>
      ${Object.entries(files).map(file)}${buttons(which, id)}</section>`;
  };
  return html`<${Dialog} title="Proposed changes" problem=${problem} onClose=${onClose}>
    <p>What was found in your conversations. Nothing of it counts before you accept it.</p>
    ${!proposals.length && html`<p class="quiet" role="status">Nothing waits for you any more.</p>`}
    ${proposals.map(section)}
  <//>`;
}

/** What consolidation did between conversations, what it would do, and having it done now. */
function Consolidation({ session: { client, memory, me }, onClose }) {
  const list = async (signal) => (await client.json("GET", "/memory/consolidations", { signal })).consolidations;
  const { told, problem, again } = useAsked(list, []);
  const [refused, act, isBusy] = useAct();
  const [note, setNote] = useState("");
  const [rehearsed, setRehearsed] = useState(null);
  const attempt = (what, work) => act(() => (setNote(what), setRehearsed(null), work()));
  const rehearse = attempt("It reads what is new and changes nothing.", async () => {
    const run = await client.json("POST", "/memory/consolidate", { query: { dry_run: "true" } });
    setRehearsed({ ...run, status: run.status ?? "nothing was written" });
    setNote("");
  });
  const now = attempt("It is at work.", async () => {
    const before = (await list())[0]?.run_id;
    await client.send("POST", "/memory/consolidate");
    const metadata = { graph_id: "consolidation_agent", user_id: me.user_id, org_id: me.org_id };
    const body = { metadata, status: "busy", limit: 1, select: ["thread_id"] };
    for (let isOver = false; !isOver; again()) {
      await pause(LOOK_MILLISECONDS);
      const isGoing = (await client.json("POST", "/threads/search", { body })).length > 0;
      const [newest] = await list();
      const isNew = newest && newest.run_id !== before;
      isOver = isNew ? newest.status !== "running" : !isGoing;
      if (isOver) setNote(isNew ? "" : "There was nothing new.");
    }
    await memory.refresh();
  });
  const done = (run) => html`<li key=${run.run_id}><h4>${when(run.started_at)}</h4><${Run} ...${run} /></li>`;
  return html`<${Dialog} title="What consolidation does" problem=${refused || problem} onClose=${onClose}>
    <p>Between conversations, what you said becomes memory: added, merged, and corrected where it is out of date.</p>
    <p class="row"><button disabled=${isBusy} onClick=${rehearse}>Rehearse</button>
      <button class="main" disabled=${isBusy} onClick=${now}>Consolidate now</button></p>
    <p class="quiet" role="status">${!refused && note}</p>
    ${rehearsed && html`<section aria-label="What it would change">
      <h3>It would change</h3><${Run} ...${rehearsed} /></section>`}
    <h3>The last runs</h3>
    ${told?.length === 0 && html`<p class="quiet">There were none yet.</p>`}
    <ul class="runs">${told?.map(done)}</ul>
  <//>`;
}

function Run({ status, conversations: talks, messages = 0, model_calls: calls = 0, reason, files = {} }) {
  const counts = `${plural(talks, "conversation")}, ${plural(messages, "message")}, ${plural(calls, "model call")}`;
  const changed = Object.entries(files).map(([path, diff]) => html`<h5>${path}</h5><${Diff} text=${diff} />`);
  const none = html`<p class="quiet">No file ${status === "running" ? "has changed yet" : "changed"}.</p>`;
  return html`<p class="quiet">${status}${talks !== undefined && `: ${counts}`}</p>
    ${reason && html`<p>${reason}</p>`}${changed.length ? changed : none}`;
}

/** How the deployment does, over all people: for operators. */
function Operations({ session: { client }, onClose }) {
  const { told, problem } = useTold(client, "/memory/operations");
  return html`<${Dialog} title="Operations" problem=${problem} onClose=${onClose}>
    <p>What operators watch, over everybody. docs/operations.md says what to do about it.</p>
    ${told && html`<${Numbers} ...${told} />`}
  <//>`;
}

function Numbers({ due }) {
  const since = due.oldest ? `, the oldest since ${when(due.oldest)}` : "";
  const waiting = `${plural(due.conversations, "conversation")} of ${plural(due.people, "person", "people")}`;
  return html`<section aria-label="Due"><h3>Due</h3><p>${waiting}${since}.</p></section>`;
}

export const dialogs = { Consolidation };
export const operatorsDialogs = { Operations };
/** What people decide about it, among the decisions about memory. */
export const switches = { review: "Show me changes first" };
export const BelowSwitches = Proposals;
