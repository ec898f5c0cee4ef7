// What the agent knows, beside the chat: facts under their titles, what changed since the last look, and what one decides.

import { Lines, Profile } from "./facts.js";
import { html, useState } from "./lib/preact.js";
import { useAct, useTold } from "./parts.js";
import { Changed, Problem, added, author, plural, size, when } from "./text.js";

const TITLES_SHOWN = 100;
const SCOPES = {
  assistant: `Memory is shared here by everybody who talks to this assistant: nobody has files of their own, and nothing
    of yours is put into it between conversations.`,
  "user+assistant": "Each assistant remembers you on its own; this is what the standard one knows.",
};
const BACKGROUND = `The agent does not write while you talk. What you say becomes memory between conversations, by
  consolidation.`;
const PAUSED = "Memory is paused: nothing new is remembered, and what you say now never will be.";
/** Which changes wait for one's yes. */
const reviewed = ({ review, review_agent: agent }) =>
  `What consolidation finds between conversations ${review ? "waits for your yes" : "counts at once"}. What the agent writes while you
  talk ${agent ? "waits for your yes" : "counts at once, and is shown here"}.`;

/** `switches` are further controls, by name, and `below` what stands below them. `onFile(path)` opens a file. */
export function Knowledge({ session, switches, below, onFile }) {
  const { memory, me } = session;
  const isOwn = !me.routes["/memories/"].shared;
  const facts = (memory.groups ?? []).flatMap(({ lines = [] }) => lines.filter(({ text }) => text !== undefined));
  return html`<section class="knowledge" aria-labelledby="knows">
    <header><h2 id="knows">What it knows about you</h2>
      ${memory.groups && html`<span class="quiet">${plural(facts.length, "fact")}</span>`}</header>
    ${SCOPES[me.memory_scope] && html`<p class="note">${SCOPES[me.memory_scope]}</p>`}
    ${isOwn && me.memory_writes === "background" && html`<p class="note">${BACKGROUND}</p>`}
    ${isOwn && html`<${Problem} text=${memory.problem} /><${News} memory=${memory} />
      <${Groups} session=${session} onFile=${onFile} />
      ${memory.shared.map((folder) => html`<${Shared} key=${folder.path} folder=${folder} />`)}
      <${Decisions} session=${session} switches=${switches} below=${below} />`}
  </section>`;
}

/** What changed since this person last looked, each with the way back. */
function News({ memory }) {
  const [refused, act] = useAct();
  const { changes, more } = memory;
  if (!changes.length && !more) return html`<${Problem} text=${refused} />`;
  const title = (path) => memory.groups?.find((group) => group.path === path)?.title ?? path;
  const entry = (change, n) => {
    const { key, path, author: by, at, deleted, diff } = change;
    const undo = act(() => memory.undo(change));
    return html`<li key=${key} class="change"><h4>${title(path)}</h4>
      <p class="quiet">${deleted ? "Deleted by" : "Changed by"} ${author(by)}, ${when(at)}</p><${Changed} diff=${diff} />
      ${change.changes && html`<button aria-label=${n ? `Undo change ${n + 1}, of ${path}` : undefined} onClick=${undo}>Undo</button>`}</li>`;
  };
  return html`<section class="news" aria-label="What changed">
    <header><h3>${memory.isEarlier ? "Since you were last here" : "New"}</h3><button onClick=${act(memory.seen)}>Seen</button></header>
    <${Problem} text=${refused} />
    <ul aria-label="Changes">${changes.map(entry)}</ul>
    ${more > 0 && html`<p class="quiet">${plural(more, "older change")} ${more === 1 ? "is" : "are"} not shown here; each file has its history.</p>`}
  </section>`;
}

function Groups({ session, onFile }) {
  const { memory } = session;
  const [query, setQuery] = useState("");
  const [isAll, setAll] = useState(false);
  const [refused, act] = useAct(); // here, since the line that it is about may be gone by then
  const groups = memory.groups ?? [];
  const has = (text) => text.toLowerCase().includes(query.toLowerCase());
  const isFound = (group) => {
    if (group.kind === "profile") return !query || group.fields.some(({ name, value }) => has(`${name} ${value ?? ""}`));
    return has(group.title) || (group.lines ?? []).some(({ text }) => text && has(text));
  };
  const isWanted = (group) => ({ text }) => !query || has(group.title) || (text && has(text));
  const wanted = groups.filter((group) => group.kind !== "file" && (group.kind === "profile" || group.lines.length)).filter(isFound);
  const shown = isAll ? wanted : wanted.slice(0, TITLES_SHOWN);
  const isEmpty = memory.groups && groups.every(({ kind, lines, fields }) =>
    kind === "profile" ? fields.every(({ value }) => value === null) : kind === "lines" && !lines.length);
  const entry = (group) => {
    const changes = memory.changes.filter(({ path }) => path === group.path);
    const body = group.kind === "profile"
      ? html`<${Profile} session=${session} group=${group} />`
      : html`<${Lines} session=${session} group=${group} lit=${new Set(changes.flatMap(({ diff }) => added(diff)))} isWanted=${isWanted(group)} act=${act} />`;
    return html`<li key=${group.path} class=${changes.length ? "changed" : ""}><header><h3>${group.title}</h3>
      ${group.revision !== 0 && html`<button class="small" aria-label=${`File ${group.path}`} onClick=${() => onFile(group.path)}>File</button>`}
      </header>${body}</li>`;
  };
  return html`${!isEmpty && html`<label class="unseen" for="find">Search in memory</label>
      <input id="find" type="search" placeholder="Search in memory" onInput=${({ target }) => setQuery(target.value.trim())} />`}
    ${isEmpty && html`<p class="quiet">Nothing yet. Tell it something to remember.</p>`}
    ${query && html`<p class="quiet" role="status">${plural(wanted.length, "title")} found</p>`}
    <${Problem} text=${refused} />
    <ul class="groups" aria-label="Memory">${shown.map(entry)}</ul>
    ${shown.length < wanted.length && html`<button class="small" onClick=${() => setAll(true)}>
      Show ${plural(wanted.length - shown.length, "more title")}</button>`}`;
}

const WRITES = { allow: "Its members' agents write here.", interrupt: "Agents write here once an operator approves.", deny: "Agents only read it." };

/** What a group of this person's shares: to read. */
function Shared({ folder: { path, claim, group, writes, groups } }) {
  const entry = ({ path: of, title, lines = [] }) => html`<li key=${of}><h4>${title}</h4>
    <ul class="facts">${lines.map(({ heading, text }) => html`<li><p class="fact">${heading ?? text}</p></li>`)}</ul></li>`;
  return html`<section aria-label=${`Shared with ${group}`}>
    <h3>Shared with ${group}</h3>
    <p class="quiet">${path}, for everybody whose ${claim} is ${group}. ${WRITES[writes]}</p>
    <ul class="groups">${groups.map(entry)}</ul></section>`;
}

function Decisions({ session, switches, below }) {
  const { client, memory } = session;
  const { told: stored, tell, problem } = useTold(client, "/memory/controls", {}, memory.version);
  const [refused, act] = useAct();
  const [wanted, want] = useState({}); // a switch moves at once
  const told = stored && { ...stored, ...wanted };
  const decide = (name) => act(async () => {
    const body = { [name]: !told[name] };
    want((others) => ({ ...others, ...body }));
    const done = () => want(({ [name]: _, ...others }) => others);
    await memory.change("PUT", "/memory/controls", { body }).then(tell).finally(done);
  });
  const option = ([name, label]) => html`<label class="switch">
    <input type="checkbox" role="switch" checked=${told[name]} onChange=${decide(name)} />${label}</label>`;
  const { nearly_full: isFull, bytes, max_bytes: maxBytes, files, max_files: maxFiles } = memory.usage ?? {};
  return html`<div class="decisions">
    ${isFull && html`<p class="note">Memory is nearly full: ${size(bytes)} of ${size(maxBytes)},
      ${` ${plural(files, "file")}`} of ${maxFiles}. Delete what is no longer needed.</p>`}
    ${told?.paused && html`<p class="note">${PAUSED}</p>`}
    ${(told?.review || told?.review_agent) && html`<p class="note">${reviewed(told)}</p>`}
    ${told && html`<p class="row">${Object.entries({ paused: "Pause memory", ...switches }).map(option)}</p>`}
    <${Problem} text=${refused || problem} />
    ${below.map((Part) => html`<${Part} session=${session} />`)}
  </div>`;
}
