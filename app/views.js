// What has a dialog of its own: consolidation, policies, what the model sees, and for operators the deployment.

import { html, useState } from "./lib/preact.js";
import { Dialog, Form, pause, useAct, useAsked, useTold } from "./parts.js";
import { Diff, Lines, plural, size, when } from "./text.js";

const LOOK_MILLISECONDS = 1000;
const NOT_SHOWN = "(This is not shown here: it is not text, or too long.)";

/** What consolidation did between conversations, what it would do, and having it done now. */
export function Consolidation({ session: { client, memory, me }, onClose }) {
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

/** The rules of one's organization: to read, and with the permission for it to change. */
export function Policies({ session: { client, me }, onClose }) {
  const { told, problem, again } = useTold(client, "/memory/policies");
  const [editing, setEditing] = useState(null); // the key of a file; empty for a new one
  const [refused, act] = useAct();
  const save = act(async ({ target }) => {
    const { key = editing, content } = Object.fromEntries(new FormData(target));
    const body = { namespace: told.namespace, key, value: { content, encoding: "utf-8" } };
    await client.send("PUT", "/store/items", { body });
    setEditing(null);
    again();
  });
  const close = () => setEditing(null);
  const form = (content) => html`<${Form} save="Save rules" problem=${refused} onSave=${save} onCancel=${close}>
    ${!editing && html`<label>Name<input name="key" required defaultValue="/" placeholder="/travel.md" /></label>`}
    <label>Rules<textarea name="content" rows="12" defaultValue=${content}></textarea></label>
  <//>`;
  const mayEdit = told?.writable && editing === null;
  const button = (key, name, label) =>
    mayEdit && html`<button onClick=${() => setEditing(key)} aria-label=${label}>${name}</button>`;
  const file = ({ key, path, bytes, content, in_prompt: inPrompt }) => html`<article key=${key}>
    <h3>${path}</h3>
    <p class="quiet">${size(bytes)}${!inPrompt && ", read when a rule refers to it"}</p>
    ${editing === key ? form(content) : html`<${Lines} text=${content ?? NOT_SHOWN} />`}
    ${content !== null && button(key, "Change", `Change ${path}`)}
  </article>`;
  return html`<${Dialog} title=${`Policies of ${me.org_id}`} problem=${problem} onClose=${onClose}>
    <p>These rules hold in every answer, for everybody in ${me.org_id}. Nothing that anybody says or that is remembered
      can change them. ${told && !told.writable && "You may read them."}</p>
    ${told?.files.length === 0 && html`<p class="quiet">Your organization has set none.</p>`}
    ${told?.files.map(file)}
    ${editing === "" && form("")}${button("", "Add rules")}
  <//>`;
}

/** What the model is shown of a person at their next turn, with sizes and what was left out. */
export function Prompt({ session: { client }, onClose }) {
  const { told, problem } = useTold(client, "/memory/prompt");
  const block = ({ name, bytes, budget, left_out: leftOut, text }) => html`<article key=${name}>
    <h3>${name[0].toUpperCase() + name.slice(1)}</h3>
    <p class="quiet">${size(bytes)}; up to ${size(budget)} of files fit</p>
    ${leftOut.length > 0 && html`<p class="problem">Left out: ${leftOut.join("; ")}</p>`}
    <div class="text prompt">${text}</div>
  </article>`;
  return html`<${Dialog} title="What the model sees of you next" problem=${problem} onClose=${onClose}>
    <p>At your next turn the system prompt holds these blocks, read afresh. An answer that surprises you has its reason
      here or in the conversation.</p>
    ${told?.blocks.map(block)}
  <//>`;
}

/** How the deployment does, over all people: for operators. */
export function Operations({ session: { client }, onClose }) {
  const { told, problem } = useTold(client, "/memory/operations");
  return html`<${Dialog} title="Operations" problem=${problem} onClose=${onClose}>
    <p>What operators watch, over everybody. docs/operations.md says what to do about it.</p>
    ${told && html`<${Numbers} ...${told} />`}
  <//>`;
}

function Numbers({ due, search_index: index, last_day: day, storage }) {
  const runs = Object.entries(day.runs).map(([of, count]) => `${count.toLocaleString()} ${of.replaceAll("_", " ")}`);
  const used = `${plural(day.model_calls, "model call")}, ${plural(day.input_tokens + day.output_tokens, "token")}`;
  const since = (oldest) => (oldest ? `, the oldest since ${when(oldest)}` : "");
  const waiting = `${plural(due.conversations, "conversation")} of ${plural(due.people, "person", "people")}`;
  const stale = `${plural(index.conversations, "conversation")} to be indexed by the next search`;
  const holder = ({ user_id: user, org_id: organization, files, bytes }) => html`<li>${user ?? "shared"}
    ${" "}<span class="quiet">${organization}</span>: ${plural(files, "file")}, ${size(bytes)}</li>`;
  const section = (name, text) => html`<section aria-label=${name}><h3>${name}</h3><p>${text}.</p>
    ${name === "Storage" && html`<ul>${storage.largest.map(holder)}</ul>`}</section>`;
  return html`${section("Due", `${waiting}${since(due.oldest)}`)}
    ${section("The last day", `Runs: ${runs.join(", ") || "none"}. ${used}, ${day.undone.toLocaleString()} undone`)}
    ${section("Search index", `${stale}${since(index.oldest)}`)}
    ${section("Storage", `${plural(storage.files, "file")}, ${size(storage.bytes)} with their histories`)}
    ${!(due.complete && storage.complete) && html`<p class="quiet">Not everything was looked at; there is more.</p>`}`;
}
