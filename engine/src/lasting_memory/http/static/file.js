// Files, for who wants them: the list, and one file: read it, change it without overwriting anybody, delete it, see what became of it and why a line is known.

import { instead } from "./client.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./lib/preact.js";
import { Dialog, Form, Toggle, useAct, useTold } from "./parts.js";
import { Diff, Lines, Problem, author, isId, size, when } from "./text.js";
import { filled, t } from "./texts.js";

const LINES_SHOWN = 400;
const ifAt = (revision) => ({ "if-match": String(revision) });

/** All files, one of them open. `first`: the path of the one that is open at first. */
export function Files({ session, first, onClose }) {
  const { memory } = session;
  const [open, setOpen] = useState(first ?? null);
  const files = (memory.groups ?? []).filter(({ revision }) => revision !== 0).toSorted((a, b) => (a.path < b.path ? -1 : 1));
  if (open && !files.some(({ path }) => path === open)) files.unshift({ path: open, isGone: true });
  const entry = ({ path, isGone, error, bytes, modified_at: at, revision }) => html`<li key=${path}>
    <${Toggle} class="path" of=${path} open=${open} set=${setOpen} />
    <p class="quiet">${isGone ? t("files.deleted") : (error ?? `${size(bytes)}, ${when(at)}`)}</p>
    ${open === path &&
    html`<${File} session=${session} path=${path} revision=${revision} isGone=${isGone} onGone=${() => setOpen(null)} />`}
  </li>`;
  return html`<${Dialog} title=${t("files.title")} problem=${memory.problem} onClose=${onClose}>
    <p>${t("files.about", { count: files.length })}</p>
    <ul class="files" aria-label=${t("files.title")}>${files.map(entry)}</ul>
    ${memory.groups && html`<div class="row"><${NewFile} session=${session} onMade=${setOpen} /></div>`}
  <//>`;
}

/** `isGone`: somebody else deleted it. What is being written is not lost with it. */
function File({ session, path, revision, isGone, onGone }) {
  const { client, memory } = session;
  const [view, setView] = useState(null);
  const { told: file, problem } = useTold(client, "/memory/file", { path }, revision);
  const [refused, act] = useAct();
  const headers = file?.revision ? ifAt(file.revision) : {};
  const remove = act(() => memory.change("DELETE", "/memory/file", { query: { path }, headers }).then(onGone));
  const opener = (name, label) => html`<${Toggle} of=${name} label=${label} open=${view} set=${setView} />`;
  useEffect(() => {
    if (isGone && view !== "edit") onGone();
  });
  const isText = file?.encoding === "utf-8";
  const editor = () => html`<${Editor} session=${session} file=${file} onClose=${() => setView(null)} />`;
  if (view === "edit") return html`<div class="file">${editor()}</div>`;
  return html`<div class="file">
    <${Problem} text=${refused || problem} />
    ${file && (isText ? html`<${Lines} text=${file.content} />` : html`<p class="quiet">${t("files.no_text")}</p>`)}
    ${!file && !problem && html`<p class="quiet" role="status">${t("files.reading")}</p>`}
    ${(file || problem) && html`<p class="row">
      ${isText && html`<button onClick=${() => setView("edit")}>${t("files.edit")}</button>${opener("why", t("files.why"))}`}
      ${opener("history", t("files.history"))}<button class="danger" onClick=${remove}>${t("files.delete")}</button>
    </p>`}
    ${view === "why" && html`<${Why} file=${file} />`}
    ${view === "history" && html`<${History} session=${session} path=${path} revision=${revision} />`}
  </div>`;
}

/** Changes a file from the revision that was read. If somebody else wrote meanwhile, both versions are shown. */
function Editor({ session: { client, memory }, file, onClose }) {
  const [text, setText] = useState(file.content);
  const [base, setBase] = useState(file.revision ?? 0);
  const field = useRef();
  useLayoutEffect(() => field.current.focus(), []);
  const [theirs, setTheirs] = useState(null);
  const [problem, act] = useAct();
  const query = { path: file.path };
  const save = act(async () => {
    try {
      await memory.change("PUT", "/memory/file", { query, body: { content: text }, headers: ifAt(base) }, file.path);
      onClose();
    } catch (error) {
      if (error.status !== 412) throw error;
      const gone = instead(404, { content: t("files.they_deleted") });
      const { content, revision } = await client.json("GET", "/memory/file", { query }).catch(gone);
      setTheirs(content);
      setBase(revision ?? 0);
    }
  });
  return html`<${Form} save=${t("common.save")} problem=${problem} onSave=${save} onCancel=${onClose}>
    ${theirs !== null && html`<p class="problem" role="alert">${t("files.moved")}</p>
      <h4>${t("files.theirs")}</h4><${Lines} text=${theirs} /><h4>${t("files.yours")}</h4>`}
    <label class="unseen" for="content">${t("files.content")}</label>
    <textarea id="content" rows="10" dir="auto" ref=${field} value=${text} onInput=${({ target }) => setText(target.value)}></textarea>
  <//>`;
}

function NewFile({ session: { memory }, onMade }) {
  const [isOpen, setOpen] = useState(false);
  const [problem, act] = useAct();
  const first = useRef();
  useLayoutEffect(() => void first.current?.focus(), [isOpen]);
  const make = act(async ({ target }) => {
    const { path: name, content } = Object.fromEntries(new FormData(target));
    const path = name.startsWith("/") ? name : `/memories/${name}`;
    await memory.change("PUT", "/memory/file", { query: { path }, body: { content }, headers: ifAt(0) }, path);
    setOpen(false);
    onMade(path);
  });
  if (!isOpen) return html`<button onClick=${() => setOpen(true)}>${t("files.new")}</button>`;
  return html`<${Form} save=${t("common.save")} problem=${problem} onSave=${make} onCancel=${() => setOpen(false)}>
    <label>${t("files.path")}<input name="path" ref=${first} required placeholder="/memories/notes.md" /></label>
    <label>${t("files.content")}<textarea name="content" rows="6" dir="auto"></textarea></label>
  <//>`;
}

/** What became of a file: its revisions, what each changed, and the way back to any of them. */
function History({ session: { client, memory }, path, revision: current }) {
  const [chosen, setChosen] = useState(null);
  const { told, problem } = useTold(client, "/memory/history", { path }, current);
  const [refused, act] = useAct();
  const body = { path, revision: chosen };
  const restore = act(() => memory.change("POST", "/memory/undo", { body }, path).then(() => setChosen(null)));
  const entry = ({ revision, at, author: by, deleted, diff }, n) => {
    const isLinked = ["agent", "subagent"].includes(by?.kind) && isId(by.thread_id);
    return html`<li key=${revision}>
      <${Toggle} class="path" of=${revision} open=${chosen} set=${setChosen} label=${t("files.revision", { number: String(revision) })} />
      <p class="quiet">${t(deleted ? "files.by_deleted" : "files.by", { when: when(at), author: author(by) })}
        ${isLinked && filled("files.in_conversation", { conversation: html`<a href=${`#${by.thread_id}`}>${t("facts.this_conversation")}</a>` })}</p>
      ${chosen === revision && html`<${Diff} text=${diff} />`}
      ${chosen === revision && n > 0 && html`<button onClick=${restore}>${t("files.restore")}</button>`}
    </li>`;
  };
  const { revisions, revisions_dropped: dropped } = told ?? {};
  const none = t("files.no_history");
  return html`<div class="history">
    <${Problem} text=${refused || problem} />
    ${!told && !problem && html`<p class="quiet" role="status">${t("files.looking")}</p>`}
    ${revisions && html`<ol aria-label=${t("files.revisions")}>${revisions.map(entry)}</ol>`}
    ${dropped > 0 && html`<p class="quiet">${t("files.made_room", { count: dropped })}</p>`}
    ${revisions?.length === 0 && html`<p class="quiet">${none}</p>`}
  </div>`;
}

/** By whom and when each line was written, and the conversations it was said in. */
function Why({ file: { content, lines: known = [] } }) {
  if (!known.length) return html`<p class="quiet">${t("files.origins_unknown")}</p>`;
  const lines = content.split("\n").slice(0, known.length);
  const more = lines.length - LINES_SHOWN;
  const line = (text, n) => html`<li key=${n}>
    <p class="text" dir="auto">${text || " "}</p><p class="quiet"><${Origin} of=${known[n]} /></p></li>`;
  return html`<ol class="why" aria-label=${t("files.why_lines")}>${lines.slice(0, LINES_SHOWN).map(line)}</ol>
    ${more > 0 && html`<p class="note">${t("files.lines_left", { count: more })}</p>`}`;
}

function Origin({ of }) {
  if (!of) return t("files.origin_unknown");
  const ids = of.threads.filter(isId);
  const name = (n) => (ids.length > 1 ? t("facts.conversation", { number: n + 1 }) : t("facts.this_conversation"));
  const link = (id, n) => html` <a href=${`#${id}`}>${name(n)}</a>`;
  const by = { author: author(of.author), when: when(of.at) };
  return ids.length ? filled("files.origin_said", { ...by, conversations: ids.map(link) }) : t("files.origin", by);
}
