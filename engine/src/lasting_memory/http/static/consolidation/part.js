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
      ${" "}<span class="badge">${proposals.length + told.more}</span></button></p>`}
    <${Problem} text=${problem} />
    ${isOpen && html`<${Waiting} memory=${memory} proposals=${proposals} more=${told?.more ?? 0} onClose=${() => setOpen(false)} />`}`;
}

function Waiting({ memory, proposals, more, onClose }) {
  const [problem, act] = useAct();
  return html`<${Dialog} title="Proposed changes" problem=${problem} onClose=${onClose}>
    <p>Nothing of it counts before you accept it. What you leave out is declined.</p>
    ${!proposals.length && html`<p class="quiet" role="status">Nothing waits for you any more.</p>`}
    <${Decisions} act=${act} memory=${memory} proposals=${proposals} />
    ${more > 0 && html`<p class="quiet">${plural(more, "more proposal")} will be shown once you have decided about these.</p>`}
  <//>`;
}

const FROM = { agent: "what it wanted to write while you talked", tidy: "how your memory could be put in order", bring: "from the text that you brought" };

/** Proposals, of which one accepts files, or lines of them, also with another text. */
function Decisions({ act, memory, proposals, onDecided }) {
  const [chosen, setChosen] = useState({}); // by proposal, path and line: { isOut, text }
  const key = (id, path, { line }) => `${id} ${path} ${line}`;
  const choose = (at, more) => setChosen((all) => ({ ...all, [at]: { ...all[at], ...more } }));
  const linesOf = ({ id, lines }, path) => {
    const mine = lines[path].map((each) => ({ line: each.line, ...chosen[key(id, path, each)] }));
    if (!mine.some(({ isOut, text }) => isOut || text !== undefined)) return []; // the whole file
    return [[path, mine.filter(({ isOut }) => !isOut).map(({ line, text }) => ({ line, ...(text?.trim() && { text }) }))]];
  };
  const decide = (proposal, accept, path) => act(async () => {
    const files = path ? [path] : Object.keys(proposal.files); // what one sees, and nothing that came meanwhile
    const lines = accept ? Object.fromEntries(files.flatMap((of) => linesOf(proposal, of))) : {};
    const body = { accept, files, ...(Object.keys(lines).length && { lines }) };
    const { refused } = await memory.change("POST", `/memory/proposals/${proposal.id}`, { body });
    const why = Object.values(refused).join(" ");
    if (why) throw refusal(409, why);
    onDecided?.();
  });
  const buttons = (of, proposal, path) => html`<p class="row">
    <button class="main" aria-label=${`Accept${of}`} onClick=${decide(proposal, true, path)}>Accept</button>
    <button aria-label=${`Decline${of}`} onClick=${decide(proposal, false, path)}>Decline</button></p>`;
  const line = (id, path) => (each) => {
    const at = key(id, path, each);
    const { isOut, text } = chosen[at] ?? {};
    const edit = ({ target }) => choose(at, { text: target.value });
    return html`<li key=${at}>
      <label class=${each.sign === "+" ? "added" : "removed"}><input type="checkbox" checked=${!isOut}
        onChange=${() => choose(at, { isOut: !isOut })} /><span>${each.sign}${each.text}</span></label>
      ${each.sign === "+" && text === undefined && html`<button class="small" aria-label=${`Edit ${each.text}`}
          onClick=${() => choose(at, { text: each.text })}>Edit</button>`}
      ${text !== undefined && html`<input aria-label=${`Instead of ${each.text}`} value=${text} onInput=${edit} />`}
      ${each.reason && html`<p class="quiet">${each.reason}</p>`}</li>`;
  };
  const section = (proposal, n) => {
    const { id, at, kind, files, lines } = proposal;
    const which = n ? ` proposal ${n + 1}` : "";
    const isOne = Object.keys(files).length === 1;
    const file = ([path, diff]) => html`<article key=${path}><h4>${title(memory, path)}</h4><p class="quiet">${path}</p>
      ${lines[path].length ? html`<ul class="choices">${lines[path].map(line(id, path))}</ul>` : html`<${Diff} text=${diff} />`}
      ${!isOne && buttons(` ${path}${which && `,${which}`}`, proposal, path)}</article>`;
    return html`<section key=${id} data-together aria-label=${`Proposal ${n + 1}`}><h3>${when(at)}${FROM[kind] && `, ${FROM[kind]}`}</h3>
      ${Object.entries(files).map(file)}${buttons(which, proposal)}</section>`;
  };
  return proposals.map(section);
}

/** The title under which a file's lines are shown, also of one that is not there yet. */
function title(memory, path) {
  const name = path.split("/").pop().replace(/\.[a-z]+$/, "").replaceAll(/[-_]/g, " ");
  return memory.groups?.find((group) => group.path === path)?.title ?? name[0].toUpperCase() + name.slice(1);
}

const PROMPT = `Write down everything that you remember or know about me, so that I can take it to another assistant: who I am, what I \
work on, how I want to be answered, facts, dates and decisions. One fact a line, as a Markdown list under headings by topic, in \
my own words where you can. Add nothing that you only guess, and leave out passwords and other secrets.`;

/** Taking along what another assistant knows. */
function Bring({ session: { client, memory }, onClose }) {
  const [problem, act, isBusy] = useAct();
  const [made, setMade] = useState(null);
  const [note, setNote] = useState("");
  const show = act(async ({ target }) => {
    setNote("It is being read.");
    setMade(null);
    const body = { text: new FormData(target).get("text") };
    const told = await client.json("POST", "/memory/bring", { body }).finally(() => setNote(""));
    setMade(told.proposal);
    setNote([told.proposal ? "" : "Nothing would be added.", told.reason].filter(Boolean).join(" "));
    await memory.refresh();
  });
  const copy = act(() => navigator.clipboard.writeText(PROMPT).then(() => setNote("Copied.")));
  const decided = () => (setMade(null), setNote("Decided."));
  return html`<${Dialog} title="Bring your memory" problem=${problem} onClose=${onClose}>
    <p>Another assistant knows you already? Ask it with this prompt, and paste what it answers, or its export. You see what would be
      added before anything is.</p>
    <div class="text prompt">${PROMPT}</div>
    ${navigator.clipboard && html`<p class="row"><button class="small" onClick=${copy}>Copy the prompt</button></p>`}
    <form class="editor" onSubmit=${show}>
      <label>What it knows about you<textarea name="text" rows="8" required maxlength="50000"></textarea></label>
      <p class="row"><button class="main" disabled=${isBusy}>Show what would be added</button></p>
    </form>
    <p class="quiet" role="status">${!problem && note}</p>
    ${made && html`<${Decisions} act=${act} memory=${memory} proposals=${[made]} onDecided=${decided} />`}
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
  const begin = (query, none) => attempt("It is at work.", async () => {
    const before = (await list())[0]?.run_id;
    await client.send("POST", "/memory/consolidate", { query });
    const metadata = { graph_id: "consolidation_agent", user_id: me.user_id, org_id: me.org_id };
    const body = { metadata, status: "busy", limit: 1, select: ["thread_id"] };
    for (let isOver = false; !isOver; again()) {
      await pause(LOOK_MILLISECONDS);
      const isGoing = (await client.json("POST", "/threads/search", { body })).length > 0;
      const [newest] = await list();
      const isNew = newest && newest.run_id !== before;
      isOver = isNew ? newest.status !== "running" : !isGoing;
      if (isOver) setNote(!isNew ? none : newest.status === "proposed" ? "It waits for you under “Proposed changes”." : "");
    }
    await memory.refresh();
  });
  const done = (run) => html`<li key=${run.run_id}><h4>${when(run.started_at)}</h4><${Run} ...${run} /></li>`;
  return html`<${Dialog} title="What consolidation does" problem=${refused || problem} onClose=${onClose}>
    <p>Between conversations, what you said becomes memory: added, merged, and corrected where it is out of date.</p>
    <p class="row"><button disabled=${isBusy} onClick=${rehearse}>Rehearse</button>
      <button class="main" disabled=${isBusy} onClick=${begin({}, "There was nothing new.")}>Consolidate now</button>
      <button disabled=${isBusy} onClick=${begin({ tidy: "true" }, "There was nothing to tidy.")}>Tidy</button></p>
    <p class="quiet">Tidy puts all of your memory in order, and proposes to you what it would change.</p>
    <p class="quiet" role="status">${!refused && note}</p>
    ${rehearsed && html`<section aria-label="What it would change">
      <h3>It would change</h3><${Run} ...${rehearsed} /></section>`}
    <h3>The last runs</h3>
    ${told?.length === 0 && html`<p class="quiet">There were none yet.</p>`}
    <ul class="runs">${told?.map(done)}</ul>
  <//>`;
}

const READ = { tidy: "all of memory", bring: "the text that you brought" };

function Run({ status, kind, conversations: talks, messages = 0, model_calls: calls = 0, reason, files = {} }) {
  const read = READ[kind] ?? `${plural(talks, "conversation")}, ${plural(messages, "message")}`;
  const counts = `${read}, ${plural(calls, "model call")}`;
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

export const dialogs = { Consolidation, "Bring your memory": Bring };
export const operatorsDialogs = { Operations };
/** What people decide about it, among the decisions about memory. */
export const switches = { review: "Show me changes first", review_agent: "Also what it writes while we talk" };
export const BelowSwitches = Proposals;
