// What the agent knows, beside the chat: facts under their titles, what changed since the last look, and what one decides.

import { reason } from "./client.js";
import { Lines, Profile } from "./facts.js";
import { html, useReducer, useRef, useState } from "./lib/preact.js";
import { useAct, useProblem, useTold } from "./parts.js";
import { Changed, Problem, added, author, size, when } from "./text.js";
import { t } from "./texts.js";

const TITLES_SHOWN = 100;
const SCOPES = { assistant: t("knowledge.scope_assistant"), "user+assistant": t("knowledge.scope_user_assistant") };
/** Which changes wait for one's yes. */
const reviewed = ({ review, review_agent: agent }) =>
  `${t(review ? "knowledge.found_waits" : "knowledge.found_counts")} ${t(agent ? "knowledge.written_waits" : "knowledge.written_counts")}`;

/** `switches` are further controls, by name, and `below` what stands below them. `onFile(path)` opens a file. */
export function Knowledge({ session, switches, below, onFile }) {
  const { memory, me } = session;
  const isOwn = me.own_memory;
  const scope = me.routes["/memories/"] ? SCOPES[me.memory_scope] : t("knowledge.no_memory");
  const facts = (memory.groups ?? []).flatMap(({ lines = [] }) => lines.filter(({ text }) => text !== undefined));
  return html`<section class="knowledge" aria-labelledby="knows">
    <header><h2 id="knows">${t("knowledge.title")}</h2>
      ${memory.groups && html`<span class="quiet">${t("knowledge.facts", { count: facts.length })}</span>`}</header>
    ${scope && html`<p class="note">${scope}</p>`}
    ${isOwn && me.memory_writes === "background" && html`<p class="note">${t("knowledge.background")}</p>`}
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
      <p class="quiet">${t(deleted ? "knowledge.deleted_by" : "knowledge.changed_by", { author: author(by), when: when(at) })}</p><${Changed} diff=${diff} />
      ${change.changes && html`<button aria-label=${n ? t("knowledge.undo_change", { number: n + 1, path }) : undefined} onClick=${undo}>${t("knowledge.undo")}</button>`}</li>`;
  };
  return html`<section class="news" aria-label=${t("knowledge.news")}>
    <header><h3>${t(memory.isEarlier ? "knowledge.earlier" : "knowledge.new")}</h3><button onClick=${act(memory.seen)}>${t("knowledge.seen")}</button></header>
    <${Problem} text=${refused} />
    <ul aria-label=${t("knowledge.changes")}>${changes.map(entry)}</ul>
    ${more > 0 && html`<p class="quiet">${t("knowledge.older_changes", { count: more })}</p>`}
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
      ${group.revision !== 0 && html`<button class="small" aria-label=${t("knowledge.file_of", { path: group.path })} onClick=${() => onFile(group.path)}>${t("knowledge.file")}</button>`}
      </header>${body}</li>`;
  };
  return html`${memory.groups && !isEmpty && html`<label class="unseen" for="find">${t("knowledge.search")}</label>
      <input id="find" type="search" placeholder=${t("knowledge.search")} onInput=${({ target }) => setQuery(target.value.trim())} />`}
    ${isEmpty && html`<p class="quiet">${t("knowledge.empty")}</p>`}
    ${query && html`<p class="quiet" role="status">${t("knowledge.found", { count: wanted.length })}</p>`}
    <${Problem} text=${refused} />
    <ul class="groups" aria-label=${t("knowledge.memory")}>${shown.map(entry)}</ul>
    ${shown.length < wanted.length && html`<button class="small" onClick=${() => setAll(true)}>
      ${t("knowledge.more", { count: wanted.length - shown.length })}</button>`}`;
}

const WRITES = { allow: t("knowledge.writes_allow"), interrupt: t("knowledge.writes_interrupt"), deny: t("knowledge.writes_deny") };

/** What a group of this person's shares: to read. */
function Shared({ folder: { path, claim, group, writes, groups } }) {
  const entry = ({ path: of, title, lines = [] }) => html`<li key=${of}><h4>${title}</h4>
    <ul class="facts">${lines.map(({ heading, text }) => html`<li><p class="fact">${heading ?? text}</p></li>`)}</ul></li>`;
  return html`<section aria-label=${t("knowledge.shared", { group })}>
    <h3>${t("knowledge.shared", { group })}</h3>
    <p class="quiet">${t("knowledge.shared_about", { path, claim, group })} ${WRITES[writes]}</p>
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
      if (isLast()) setRefused(`${t("knowledge.switch_back", { label })} ${reason(error)}`);
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
    ${isFull && html`<p class="note">${t("knowledge.full", { bytes: size(bytes), max_bytes: size(maxBytes), count: files, max_files: maxFiles })}</p>`}
    <p class="row">${Object.entries({ paused: t("knowledge.pause"), ...switches }).map(option)}</p>
    ${shown?.paused && html`<p class="note">${t("knowledge.paused")}</p>`}
    ${(shown?.review || shown?.review_agent) && html`<p class="note">${reviewed(shown)}</p>`}
    <${Problem} text=${problem} />
    ${below.map((Part) => html`<${Part} session=${session} />`)}
  </div>`;
}
