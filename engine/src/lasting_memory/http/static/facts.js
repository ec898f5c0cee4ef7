// Facts: a line of what is known, why it is known, and the profile as a form of its fields.

import { ForGood } from "./forgood.js";
import { html, useLayoutEffect, useRef, useState } from "./lib/preact.js";
import { Form, Toggle, sendByEnter, useAct, useAsked, useGrowing } from "./parts.js";
import { Turn, author, dayOf, isId, when } from "./text.js";
import { filled, t } from "./texts.js";
import { Inline, fieldValue, profileDescription, profileField, withEnd, withoutEnd } from "./words.js";

const LINES_SHOWN = 400;
const CONVERSATIONS_NAMED = 3;
const NAME_CHARS = 120;

/** The lines under one title, in a list with this `label`. `lit` are those that changed, `isWanted` says which to show, `act` does things to them. */
export function Lines({ session, group, label, lit, isWanted, act }) {
  const [isAll, setAll] = useState(false);
  const [list, grew] = useGrowing();
  const [edited, edit] = useState(null); // { fact, revision, name }: it stays open whatever becomes of its line
  const seen = new Map();
  // A line keeps its name when others come above it.
  const named = group.lines.filter(isWanted).map((fact) => {
    const text = fact.heading ?? fact.text;
    seen.set(text, (seen.get(text) ?? 0) + 1);
    return { fact, name: `${text} ${seen.get(text)}` };
  });
  const shown = isAll ? named : named.slice(0, LINES_SHOWN);
  if (edited && !shown.some(({ name }) => name === edited.name)) shown.push(edited);
  const line = ({ fact, name }) => {
    if (fact.heading !== undefined) return html`<li key=${name}><h4 dir="auto">${fact.heading}</h4></li>`;
    const open = () => edit({ fact, name, revision: group.revision });
    const close = () => edit(null);
    if (edited?.name === name) return html`<${Edited} key=${name} session=${session} group=${{ ...group, ...edited }} onClose=${close} />`;
    return html`<${Line} key=${name} session=${session} group=${group} fact=${fact} isNew=${lit.has(withEnd(fact.text, fact.until))} act=${act} onEdit=${open} />`;
  };
  return html`<ul class="facts" aria-label=${label} ref=${list}>${shown.map(line)}</ul>
    ${shown.length < named.length && html`<button class="small" onClick=${() => (grew(shown.length), setAll(true))}>
      ${t("facts.more", { count: named.length - shown.length })}</button>`}`;
}

/** The first day that a fact can be given as its end: one that has passed would be history, and shown for ever. */
function firstDay({ until }) {
  const today = new Date().toLocaleDateString("sv-SE"); // as YYYY-MM-DD
  return until && until < today ? until : today;
}

function Edited({ session: { memory, me }, group, onClose }) {
  const [problem, act] = useAct();
  const field = useRef();
  useLayoutEffect(() => field.current.focus(), []);
  const save = act(async ({ target }) => {
    const given = new FormData(target);
    const text = given.get("fact").replace(/\s*\n\s*/g, " ").trim();
    await memory.rewrite(group, group.fact, text ? withEnd(text, given.get("until")) : null);
    onClose();
  });
  return html`<li><${Form} save=${t("common.save")} problem=${problem} onSave=${save} onCancel=${onClose}>
    <label class="unseen" for="fact">${t("facts.fact")}</label>
    <textarea id="fact" name="fact" rows="2" dir="auto" ref=${field} onKeyDown=${sendByEnter} defaultValue=${group.fact.raw ?? group.fact.text}></textarea>
    ${me.ends && group.fact.raw === undefined && html`<label>${t("facts.holds_until")}
      <input type="date" name="until" min=${firstDay(group.fact)} max="9999-12-31" defaultValue=${group.fact.until ?? ""} /></label>`}
  <//></li>`;
}

function Line({ session, group, fact, isNew, act, onEdit }) {
  const [view, setView] = useState(null);
  const [isLeaving, setLeaving] = useState(false);
  const remove = act(() => session.memory.rewrite(group, fact, null));
  const holdOn = act(() => session.memory.rewrite(group, fact, withoutEnd));
  const confirm = act(() => session.memory.confirm(group, { text: fact.raw ?? fact.text }));
  const name = { text: fact.text.slice(0, NAME_CHARS) };
  return html`<li class=${isNew ? "new" : ""}>
    <p class="fact" dir="auto"><${Inline} text=${fact.text} /></p>
    ${fact.source === "unconfirmed" && html`<p class="quiet unconfirmed">${t("facts.unconfirmed")}</p>`}
    ${fact.until && html`<p class="quiet">${t(fact.over ? "facts.was_until" : "facts.until", { day: dayOf(fact.until) })}</p>`}
    <p class="row actions">
      ${fact.over && html`<button class="small" aria-label=${t("facts.still_true_fact", name)} onClick=${holdOn}>${t("facts.still_true")}</button>`}
      ${fact.source === "unconfirmed" && html`<button class="small" aria-label=${t("facts.confirm_fact", name)} onClick=${confirm}>${t("facts.confirm")}</button>`}
      <button class="small" aria-label=${t("facts.edit_fact", name)} onClick=${onEdit}>${t("facts.edit")}</button>
      <button class="small" aria-label=${t("facts.delete_fact", name)} onClick=${remove}>${t("facts.delete")}</button>
      <button class="small" aria-label=${t("for_good.open_line", name)} onClick=${() => setLeaving(true)}>${t("for_good.open")}</button>
      ${session.factActions.map((Actions) => html`<${Actions} session=${session} path=${group.path} text=${fact.text} name=${name.text} />`)}
      <${Toggle} class="small" of="why" label=${t("facts.why")} aria-label=${t("facts.why_fact", name)} open=${view} set=${setView} /></p>
    ${view === "why" && html`<${Why} session=${session} path=${group.path} fact=${fact} />`}
    ${isLeaving && html`<${ForGood} session=${session} path=${group.path} text=${fact.raw ?? fact.text} onClose=${() => setLeaving(false)} />`}
  </li>`;
}

/** By whom and when a line was written, and what was said in the conversation that it came from. */
function Why({ session: { client }, path, fact: { line, text } }) {
  const { told, problem } = useAsked(async (signal) => {
    const { lines } = await client.json("GET", "/memory/file", { query: { path }, signal });
    const threads = (lines[line]?.threads ?? []).filter(isId);
    if (!threads.length) return { origin: lines[line], threads };
    const query = { q: text.slice(0, 300), limit: "20" };
    const { conversations } = await client.json("GET", "/memory/search", { query, signal }).catch(() => ({ conversations: [] }));
    return { origin: lines[line], threads, found: conversations.find(({ thread_id: id }) => threads.includes(id)) };
  }, [path, line, text]);
  if (!told) return html`<p class="quiet" role="status">${problem || t("facts.looking")}</p>`;
  const { origin, threads, found } = told;
  if (!origin) return html`<p class="quiet">${t("facts.unknown")}</p>`;
  const link = (id, n) => html` <a href=${`#${id}`}>${threads.length > 1 ? t("facts.conversation", { number: n + 1 }) : t("facts.this_conversation")}</a>`;
  const left = threads.length - CONVERSATIONS_NAMED;
  const by = { author: author(origin.author), when: when(origin.at) };
  const links = () => html`${threads.slice(0, CONVERSATIONS_NAMED).map(link)}${left > 0 && t("facts.more_conversations", { count: left })}`;
  const source = () => {
    if (found) return filled("facts.origin_quoted", { ...by, conversations: html`<a href=${`#${found.thread_id}`}>${t("facts.this_conversation")}</a>` });
    return threads.length ? filled("facts.origin_said", { ...by, conversations: links() }) : t("facts.origin", by);
  };
  return html`<div class="why">
    <p class="quiet">${source()}</p>
    ${found?.turns.map((turn) => html`<${Turn} of=${turn} />`)}
  </div>`;
}

/** What there is of a field in its schema: the type, its choices and bounds. */
const shape = ({ anyOf, ...more }) => ({ ...more, ...anyOf?.find(({ type }) => type !== "null") });
const isKnown = ({ value }) => value !== null && value !== "" && !(Array.isArray(value) && !value.length);

/** Who this person says they are. */
export function Profile({ session: { memory, client }, group: { path, fields, revision } }) {
  const [opened, open] = useState(null); // the fields and the revision that the form was opened with
  const isOpen = opened !== null;
  const [problem, act] = useAct();
  const form = useRef();
  useLayoutEffect(() => void form.current?.querySelector("input, select")?.focus(), [isOpen]);
  const known = fields.filter(isKnown);
  const save = act(async ({ target }) => {
    const given = new FormData(target);
    const stored = opened.revision ? JSON.parse((await client.json("GET", "/memory/file", { query: { path } })).content || "{}") : {};
    for (const { name, schema } of opened.fields.filter(isEditable)) {
      const value = valueOf(given.get(name), shape(schema));
      if (value === null) delete stored[name];
      else stored[name] = value;
    }
    const put = { query: { path }, body: { content: `${JSON.stringify(stored, null, 2)}\n` }, headers: { "if-match": String(opened.revision ?? 0) } };
    await memory.change("PUT", "/memory/file", put, path);
    open(null);
  });
  if (isOpen) {
    return html`<div ref=${form}><${Form} save=${t("common.save")} problem=${problem} onSave=${save} onCancel=${() => open(null)}>
      ${opened.fields.map((field) => html`<${Field} key=${field.name} field=${field} />`)}
    <//></div>`;
  }
  const confirm = ({ name, value }) => {
    const seen = typeof value === "string" && value ? { value } : {}; // it may have another one by now
    return act(() => memory.confirm({ path }, { field: name, ...seen }));
  };
  const doubt = ({ name, value }) => html` <span class="unconfirmed">${t("facts.unconfirmed")}</span> <button class="small"
    aria-label=${t("facts.confirm_fact", { text: profileField(name) })} onClick=${confirm({ name, value })}>${t("facts.confirm")}</button>`;
  const entry = (field) => html`<div key=${field.name}><dt>${profileField(field.name)}</dt>
    <dd dir="auto">${fieldValue(field.value)}${field.source === "unconfirmed" && doubt(field)}</dd></div>`;
  return html`${known.length > 0 && html`<dl>${known.map(entry)}</dl>`}
    <p class="row actions"><button class="small" onClick=${() => open({ fields, revision })}>${t(known.length ? "profile.edit" : "profile.say")}</button></p>`;
}

const isEditable = ({ schema }) => ["string", "integer", "number", "boolean"].includes(shape(schema).type) && !shape(schema).const;

function valueOf(text, { type }) {
  if (text === null || !text.trim()) return null;
  if (type === "boolean") return text === "true";
  return type === "string" ? text.trim() : Number(text);
}

function Field({ field: { name, description, value, schema } }) {
  const { type, maxLength, minimum, maximum, ...about } = shape(schema);
  const choices = about.enum ?? (type === "boolean" ? ["true", "false"] : null);
  if (!isEditable({ schema })) return html`<p class="quiet">${t("profile.in_file", { field: profileField(name), value: fieldValue(value) })}</p>`;
  const step = type === "integer" ? "1" : "any";
  const input = type === "string"
    ? html`<input name=${name} dir="auto" maxlength=${maxLength} defaultValue=${value ?? ""} />`
    : html`<input name=${name} type="number" step=${step} min=${minimum} max=${maximum} defaultValue=${value ?? ""} />`;
  const select = () => html`<select name=${name}><option value=""></option>
    ${choices.map((each) => html`<option value=${each} selected=${String(value) === each}>${each}</option>`)}</select>`;
  return html`<label>${profileField(name)}${choices ? select() : input}<span class="quiet">${profileDescription(description)}</span></label>`;
}
