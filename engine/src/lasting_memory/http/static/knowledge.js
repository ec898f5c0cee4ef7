// What the agent knows, beside the chat: facts under their titles.

import { Lines, Profile } from "./facts.js";
import { html, useState } from "./lib/preact.js";
import { useAct, useGrowing } from "./parts.js";
import { Problem, dayOf, size } from "./text.js";
import { t } from "./texts.js";
import { Inline, differences, titleOf } from "./words.js";

const TITLES_SHOWN = 100;
const SCOPES = { assistant: t("knowledge.scope_assistant"), "user+assistant": t("knowledge.scope_user_assistant") };

/** `onFile(path)` opens a file. */
export function Knowledge({ session, onFile }) {
  const { memory, me } = session;
  const isOwn = me.own_memory;
  const scope = me.routes["/memories/"] ? SCOPES[me.memory_scope] : t("knowledge.no_memory");
  const facts = (memory.groups ?? []).flatMap(({ lines = [] }) => lines.filter(({ text, over }) => text !== undefined && !over));
  const { nearly_full: isFull, bytes, max_bytes: maxBytes, files, max_files: maxFiles } = memory.usage ?? {};
  return html`<section class="knowledge" aria-labelledby="knows">
    <header><h2 id="knows">${t("knowledge.title")}</h2>
      ${memory.groups && html`<span class="quiet">${t("knowledge.facts", { count: facts.length })}</span>`}</header>
    ${scope && html`<p class="note">${scope}</p>`}
    ${isOwn && me.memory_writes === "background" && html`<p class="note">${t("knowledge.background")}</p>`}
    ${isFull && html`<p class="note">${t("knowledge.full", { bytes: size(bytes), max_bytes: size(maxBytes), count: files, max_files: maxFiles })}</p>`}
    ${isOwn && html`<${Groups} session=${session} onFile=${onFile} />
      ${memory.shared.map((folder) => html`<${Shared} key=${folder.path} folder=${folder} />`)}`}
  </section>`;
}

function Groups({ session, onFile }) {
  const { memory } = session;
  const [query, setQuery] = useState("");
  const [isAll, setAll] = useState(false);
  const [list, grew] = useGrowing();
  const [refused, act] = useAct(); // here, since the line that it is about may be gone by then
  const groups = memory.groups ?? [];
  const has = (text) => text.toLowerCase().includes(query.toLowerCase());
  const isFound = (group) => {
    if (group.kind === "profile") return !query || group.fields.some(({ name, value }) => has(`${name} ${value ?? ""}`));
    return has(group.title) || (group.lines ?? []).some((line) => line.text && !line.over && has(line.text));
  };
  const isWanted = (group) => ({ text, over }) => !over && (!query || has(group.title) || (text && has(text)));
  const isOver = (group) => ({ text, over }) => over && (!query || has(group.title) || has(text));
  const wanted = groups.filter((group) => group.kind === "profile" || (group.lines ?? []).some(({ over }) => !over)).filter(isFound);
  const past = groups.filter((group) => (group.lines ?? []).some(isOver(group)));
  const shown = isAll ? wanted : wanted.slice(0, TITLES_SHOWN);
  const isEmpty = memory.groups && groups.every(({ kind, lines, fields }) =>
    kind === "profile" ? fields.every(({ value }) => value === null) : kind === "lines" && !lines.length);
  const entry = (group) => {
    const changes = memory.changes.filter(({ path }) => path === group.path);
    const lit = new Set(changes.flatMap(({ path, diff }) => differences(path, diff).came));
    const body = group.kind === "profile"
      ? html`<${Profile} session=${session} group=${group} />`
      : html`<${Lines} session=${session} group=${group} label=${group.title} lit=${lit} isWanted=${isWanted(group)} act=${act} />`;
    return html`<li key=${group.path} class=${changes.length ? "changed" : ""}><header><h3 dir="auto">${titleOf(memory, group.path)}</h3>
      ${group.revision !== 0 && html`<button class="small" aria-label=${t("knowledge.file_of", { path: group.path })} onClick=${() => onFile(group.path)}>${t("knowledge.file")}</button>`}
      </header>${body}</li>`;
  };
  return html`${memory.groups && !isEmpty && html`<label class="unseen" for="find">${t("knowledge.search")}</label>
      <input id="find" type="search" dir="auto" placeholder=${t("knowledge.search")} onInput=${({ target }) => setQuery(target.value.trim())} />`}
    ${isEmpty && html`<p class="quiet">${t("knowledge.empty")}</p>`}
    ${query && html`<p class="quiet" role="status">${t("knowledge.found", { count: wanted.length })}</p>`}
    <${Problem} text=${refused} />
    <ul class="groups" aria-label=${t("knowledge.memory")} ref=${list}>${shown.map(entry)}</ul>
    ${shown.length < wanted.length && html`<button class="small" onClick=${() => (grew(shown.length), setAll(true))}>
      ${t("knowledge.more", { count: wanted.length - shown.length })}</button>`}
    ${past.length > 0 && html`<${Over} session=${session} groups=${past} isOver=${isOver} act=${act} />`}`;
}

/** Lines whose day has passed: the agent is shown none of them. They stay until this person decides otherwise. */
function Over({ session, groups, isOver, act }) {
  const none = new Set();
  const entry = (group) => html`<li key=${group.path}><h4 dir="auto">${titleOf(session.memory, group.path)}</h4>
    <${Lines} session=${session} group=${group} label=${t("knowledge.over_of", { title: group.title })} lit=${none} isWanted=${isOver(group)} act=${act} /></li>`;
  return html`<section aria-labelledby="over"><h3 id="over">${t("knowledge.over")}</h3>
    <p class="quiet">${t("knowledge.over_about")}</p>
    <ul class="groups">${groups.map(entry)}</ul></section>`;
}

const WRITES = { allow: t("knowledge.writes_allow"), interrupt: t("knowledge.writes_interrupt"), deny: t("knowledge.writes_deny") };

/** What a group of this person's shares: to read. */
function Shared({ folder: { path, claim, group, writes, groups } }) {
  const line = ({ heading, text, until, over }) => html`<li><p class="fact" dir="auto"><${Inline} text=${heading ?? text} /></p>
    ${until && html`<p class="quiet">${t(over ? "facts.was_until" : "facts.until", { day: dayOf(until) })}</p>`}</li>`;
  const entry = ({ path: of, title, lines = [] }) => html`<li key=${of}><h4 dir="auto">${title}</h4><ul class="facts">${lines.map(line)}</ul></li>`;
  return html`<section aria-label=${t("knowledge.shared", { group })}>
    <h3>${t("knowledge.shared", { group })}</h3>
    <p class="quiet">${t("knowledge.shared_about", { path, claim, group })} ${WRITES[writes]}</p>
    <ul class="groups">${groups.map(entry)}</ul></section>`;
}
