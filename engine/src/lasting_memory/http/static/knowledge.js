// What the agent knows, beside the chat: facts under their titles, what changed since the last look, and what one decides.

import { reason } from "./client.js";
import { Lines, Profile } from "./facts.js";
import { html, useReducer, useRef, useState } from "./lib/preact.js";
import { useAct, useProblem, useTold } from "./parts.js";
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
      ${(memory.groups || memory.problem) && html`<${Decisions} session=${session} switches=${switches} below=${below} />`}`}
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
  return html`${memory.groups && !isEmpty && html`<label class="unseen" for="find">Search in memory</label>
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

/** What the switches show, and what one of them does: [shown, flip, problem]. `shown` is null until the server has told. */
function useSwitches({ client, memory }) {
  const { told, tell, problem } = useTold(client, "/memory/controls", {}, memory.version);
  const [refused, setRefused] = useProblem();
  const [, changed] = useReducer((n) => n + 1, 0);
  const clicks = useRef({}); // by name, the last click that the server has not answered: { isOn }
  const isOn = (name) => clicks.current[name]?.isOn ?? told?.[name] ?? false;
  const flip = (name, label) => async () => {
    const click = { isOn: !isOn(name) }; // not what the element says: whatever is drawn between a click and this sets it back
    const isLast = () => clicks.current[name] === click;
    const put = async () => isLast() && tell(await client.json("PUT", "/memory/controls", { body: { [name]: click.isOn } }));
    clicks.current[name] = click;
    setRefused("");
    changed();
    try {
      await memory.decide(put);
    } catch (error) {
      if (isLast()) setRefused(`“${label}” is as it was. ${reason(error)}`);
    }
    if (isLast()) delete clicks.current[name];
    changed();
    memory.refresh();
  };
  const clicked = Object.fromEntries(Object.keys(clicks.current).map((name) => [name, isOn(name)]));
  const shown = told && { ...told, ...clicked };
  return [shown, flip, refused || problem];
}

function Decisions({ session, switches, below }) {
  const { memory } = session;
  const [shown, flip, problem] = useSwitches(session);
  // They are there before the server has told how they are: what is below them stays where it is.
  const option = ([name, label]) => html`<label class="switch">
    <input type="checkbox" role="switch" checked=${shown?.[name] ?? false} disabled=${!shown} onChange=${flip(name, label)} />${label}</label>`;
  const { nearly_full: isFull, bytes, max_bytes: maxBytes, files, max_files: maxFiles } = memory.usage ?? {};
  return html`<div class="decisions">
    ${isFull && html`<p class="note">Memory is nearly full: ${size(bytes)} of ${size(maxBytes)},
      ${` ${plural(files, "file")}`} of ${maxFiles}. Delete what is no longer needed.</p>`}
    <p class="row">${Object.entries({ paused: "Pause memory", ...switches }).map(option)}</p>
    ${shown?.paused && html`<p class="note">${PAUSED}</p>`}
    ${(shown?.review || shown?.review_agent) && html`<p class="note">${reviewed(shown)}</p>`}
    <${Problem} text=${problem} />
    ${below.map((Part) => html`<${Part} session=${session} />`)}
  </div>`;
}
