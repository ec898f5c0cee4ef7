// What consolidation did, would do and proposes; for operators, what it does over all people.

import { refusal } from "../client.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib/preact.js";
import { Dialog, pause, useAct, useAsked, useTold } from "../parts.js";
import { Changed, Problem, when } from "../text.js";
import { t } from "../texts.js";
import { Inline, givenUp, lineFor, markerOf, reasons, said, titleOf } from "../words.js";
import { Summary, textOf } from "./brought.js";

const LOOK_MILLISECONDS = 1000;
const MOST_LINES = 200;

/** The changes that wait for a decision. */
function Proposals({ session: { client, memory } }) {
  const { told, problem } = useTold(client, "/memory/proposals", {}, memory.version);
  const [isOpen, setOpen] = useState(false);
  const proposals = told?.proposals ?? [];
  const count = proposals.length + (told?.more ?? 0);
  useEffect(() => memory.wait(count), [count]);
  return html`${proposals.length > 0 && html`<p><button class="main" onClick=${() => setOpen(true)}>${t("proposals.title")}
      ${" "}<span class="badge">${count}</span></button></p>`}
    <${Problem} text=${problem} />
    ${isOpen && html`<${Waiting} memory=${memory} proposals=${proposals} more=${told?.more ?? 0} onClose=${() => setOpen(false)} />`}`;
}

function Waiting({ memory, proposals, more, onClose }) {
  const [problem, act] = useAct();
  return html`<${Dialog} title=${t("proposals.title")} problem=${problem} onClose=${onClose}>
    <p>${t("proposals.about")}</p>
    ${!proposals.length && html`<p class="quiet" role="status">${t("proposals.none")}</p>`}
    <${Decisions} act=${act} memory=${memory} proposals=${proposals} />
    ${more > 0 && html`<p class="quiet">${t("proposals.more", { count: more })}</p>`}
  <//>`;
}

// Of a kind of proposal: where it comes from, beside when, and what its run has read.
const KINDS = {
  agent: { from: (at) => t("proposals.from_agent", { when: at }) },
  tidy: { from: (at) => t("proposals.from_tidy", { when: at }), read: t("consolidation.read_tidy") },
  bring: { from: (at) => t("proposals.from_bring", { when: at }), read: t("consolidation.read_bring") },
  dream: { from: (at) => t("proposals.from_dream", { when: at }), read: t("consolidation.read_dream") },
};

/** Proposals, of which one accepts files, or lines of them, also with another text. */
function Decisions({ act, memory, proposals, onDecided }) {
  const opened = useRef(null); // the field that "Edit" has just opened
  useLayoutEffect(() => {
    if (opened.current) document.getElementById(opened.current)?.focus();
    opened.current = null;
  });
  const [chosen, setChosen] = useState({}); // by proposal, path and line: { isOut, text }
  const key = (id, path, { line }) => `${id} ${path} ${line}`;
  const choose = (at, more) => setChosen((all) => ({ ...all, [at]: { ...all[at], ...more } }));
  const linesOf = ({ id, lines }, path) => {
    const mine = lines[path].map((each) => ({ line: each.line, was: each.text, ...chosen[key(id, path, each)] }));
    if (!mine.some(({ isOut, text }) => isOut || text !== undefined)) return []; // the whole file
    return [[path, mine.filter(({ isOut }) => !isOut).map(({ line, text, was }) => ({ line, ...(text?.trim() && { text: written(text, was) }) }))]];
  };
  const decide = (proposal, accept, path) => act(async () => {
    const files = path ? [path] : Object.keys(proposal.files); // what one sees, and nothing that came meanwhile
    const lines = accept ? Object.fromEntries(files.flatMap((of) => linesOf(proposal, of))) : {};
    const body = { accept, files, ...(Object.keys(lines).length && { lines }) };
    const { refused, notes } = await memory.change("POST", `/memory/proposals/${proposal.id}`, { body });
    const why = reasons(notes) || Object.values(refused).join(" ");
    if (Object.keys(refused).length) throw refusal(409, why);
    onDecided?.();
  });
  const buttons = (what, proposal, path) => html`<p class="row">
    <button class="main" aria-label=${what ? t("proposals.accept_of", { what }) : t("proposals.accept")}
      onClick=${decide(proposal, true, path)}>${t("proposals.accept")}</button>
    <button aria-label=${what ? t("proposals.decline_of", { what }) : t("proposals.decline")}
      onClick=${decide(proposal, false, path)}>${t("proposals.decline")}</button></p>`;
  const line = ({ id, unconfirmed }, path) => (each) => {
    const isDoubtful = ({ line }) => unconfirmed?.[path]?.includes(line);
    const at = key(id, path, each);
    const { isOut, text } = chosen[at] ?? {};
    const edit = ({ target }) => choose(at, { text: target.value });
    const line = lineFor(path, each.text);
    const isNew = each.sign === "+";
    const open = () => {
      opened.current = at;
      choose(at, { text: said(each.text.trim()) });
    };
    return html`<li key=${at}>
      <label class=${isNew ? "added" : "removed"}><input type="checkbox" checked=${!isOut} onChange=${() => choose(at, { isOut: !isOut })} />
        <span dir="auto"><b>${isNew ? "+" : "−"}</b> <${Inline} text=${line} /></span></label>
      ${isNew && text === undefined && html`<button class="small" aria-label=${t("proposals.edit_line", { text: line })}
          onClick=${open}>${t("proposals.edit")}</button>`}
      ${text !== undefined && html`<input id=${at} dir="auto" aria-label=${t("proposals.instead", { text: line })} value=${text} onInput=${edit} />`}
      ${isDoubtful(each) && html`<p class="quiet unconfirmed">${t("facts.unconfirmed")}</p>`}
      ${each.reason && html`<p class="quiet" dir="auto">${givenUp(each.reason)}</p>`}</li>`;
  };
  const section = (proposal, n) => {
    const { id, at, kind, files, lines } = proposal;
    const which = n ? t("proposals.proposal", { number: n + 1 }) : "";
    const fileOf = (path) => (n ? t("proposals.file_of_proposal", { path, number: n + 1 }) : path);
    const isOne = Object.keys(files).length === 1;
    const file = ([path, diff]) => html`<article key=${path}><h4 dir="auto">${titleOf(memory, path)}</h4>
      ${lines[path].length ? html`<ul class="choices">${lines[path].map(line(proposal, path))}</ul>` : html`<${Changed} path=${path} diff=${diff} most=${MOST_LINES} />`}
      ${!isOne && buttons(fileOf(path), proposal, path)}</article>`;
    return html`<section key=${id} data-together aria-label=${t("proposals.label", { number: n + 1 })}><h3>${KINDS[kind]?.from(when(at)) ?? when(at)}</h3>
      ${Object.entries(files).map(file)}${buttons(which, proposal)}</section>`;
  };
  return proposals.map(section);
}

/** What a person wrote instead of a line, as the file has lines: behind the same marker. */
const written = (text, was) => markerOf(was) + said(text.trim());

const PROMPT = t("bring.prompt");

/** Taking along what another assistant knows. What is read of it goes on while this is open. */
function Bring({ session: { client, memory }, onClose }) {
  const [problem, act, isBusy] = useAct();
  const [told, setTold] = useState(null);
  const [step, setStep] = useState(null); // how far a text is read: { part, parts, found }
  const [note, setNote] = useState("");
  const [reading] = useState(() => new AbortController());
  useEffect(() => () => reading.abort(), []);
  const show = act(async ({ target }) => {
    setNote(t("bring.reading"));
    setTold(null);
    try {
      const body = { text: await textOf(target) };
      for await (const line of client.lines("POST", "/memory/bring", { body, signal: reading.signal })) {
        if ("proposal" in line) setTold(line);
        else setStep(line);
      }
    } finally {
      setStep(null);
      setNote("");
    }
    await memory.refresh();
  });
  const copy = act(() => navigator.clipboard.writeText(PROMPT).then(() => setNote(t("bring.copied"))));
  const decided = () => (setTold(null), setNote(t("bring.decided")));
  return html`<${Dialog} title=${t("bring.title")} problem=${problem} onClose=${onClose}>
    <p>${t("bring.about")}</p>
    <div class="text prompt">${PROMPT}</div>
    ${navigator.clipboard && html`<p class="row"><button class="small" onClick=${copy}>${t("bring.copy")}</button></p>`}
    <form class="editor" onSubmit=${show}>
      <label>${t("bring.text")}<textarea name="text" rows="8" dir="auto"></textarea></label>
      <label>${t("bring.file")}<input type="file" name="file" accept=".txt,.md,.json,.jsonl,.ndjson,.html,.htm,.zip" /></label>
      <p class="row"><button class="main" disabled=${isBusy}>${t("bring.show")}</button></p>
    </form>
    <p class="quiet" role="status">${step ? t("bring.step", step) : !problem && note}</p>
    ${step?.parts > 1 && html`<progress aria-label=${t("bring.reading")} value=${step.part - 1} max=${step.parts}></progress>`}
    ${told && html`<${Summary} told=${told} />`}
    ${told?.proposal && html`<${Decisions} act=${act} memory=${memory} proposals=${[told.proposal]} onDecided=${decided} />`}
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
  const rehearse = attempt(t("consolidation.rehearsing"), async () => {
    const run = await client.json("POST", "/memory/consolidate", { query: { dry_run: "true" } });
    setRehearsed(run);
    setNote("");
  });
  const begin = (query, none) => attempt(t("consolidation.working"), async () => {
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
      if (isOver) setNote(!isNew ? none : newest.status === "proposed" ? t("consolidation.waits") : "");
    }
    await memory.refresh();
  });
  const done = (run) => html`<li key=${run.run_id}><h4>${when(run.started_at)}</h4><${Run} memory=${memory} ...${run} /></li>`;
  return html`<${Dialog} title=${t("consolidation.title")} problem=${refused || problem} onClose=${onClose}>
    <p>${t("consolidation.about")}</p>
    <p class="row"><button disabled=${isBusy} onClick=${rehearse}>${t("consolidation.rehearse")}</button>
      <button class="main" disabled=${isBusy} onClick=${begin({}, t("consolidation.nothing_new"))}>${t("consolidation.now")}</button>
      <button disabled=${isBusy} onClick=${begin({ tidy: "true" }, t("consolidation.nothing_to_tidy"))}>${t("consolidation.tidy")}</button></p>
    <p class="quiet">${t("consolidation.tidy_about")}</p>
    <p class="quiet" role="status">${!refused && note}</p>
    ${rehearsed && html`<section aria-label=${t("consolidation.would_label")}>
      <h3>${t("consolidation.would")}</h3><${Run} memory=${memory} ...${rehearsed} /></section>`}
    <h3>${t("consolidation.last")}</h3>
    ${told?.length === 0 && html`<p class="quiet">${t("consolidation.none")}</p>`}
    <ul class="runs">${told?.map(done)}</ul>
  <//>`;
}

const STATUS = {
  running: t("consolidation.status_running"),
  done: t("consolidation.status_done"),
  proposed: t("consolidation.status_proposed"),
  accepted: t("consolidation.status_accepted"),
  declined: t("consolidation.status_declined"),
  replaced: t("consolidation.status_replaced"),
  undone: t("consolidation.status_undone"),
  failed: t("consolidation.status_failed"),
};

function Run({ memory, status, kind, conversations: talks, messages = 0, notes, files = {} }) {
  const counts = () => ({
    conversations: t("consolidation.conversations", { count: talks }),
    messages: t("consolidation.messages", { count: messages }),
  });
  const read = () => KINDS[kind]?.read ?? t("consolidation.read", counts());
  const shown = STATUS[status] ?? t("consolidation.nothing_written");
  const changed = Object.entries(files).map(
    ([path, diff]) => html`<h5 dir="auto">${titleOf(memory, path)}</h5><${Changed} path=${path} diff=${diff} most=${MOST_LINES} />`,
  );
  const why = reasons(notes);
  const none = html`<p class="quiet">${t(status === "running" ? "consolidation.none_yet" : "consolidation.none_changed")}</p>`;
  return html`<p class="quiet">${talks === undefined ? shown : t("consolidation.status", { status: shown, read: read() })}</p>
    ${why && html`<p class="lines" dir="auto">${why}</p>`}${changed.length ? changed : none}`;
}

/** How the deployment does, over all people: for operators. */
function Operations({ session: { client }, onClose }) {
  const { told, problem } = useTold(client, "/memory/operations");
  return html`<${Dialog} title=${t("operations.title")} problem=${problem} onClose=${onClose}>
    <p>${t("operations.about")}</p>
    ${told && html`<${Numbers} ...${told} />`}
  <//>`;
}

function Numbers({ due }) {
  const conversations = t("operations.conversations", { count: due.conversations });
  const people = t("operations.people", { count: due.people });
  const waiting = due.oldest
    ? t("operations.waiting_since", { conversations, people, when: when(due.oldest) })
    : t("operations.waiting", { conversations, people });
  return html`<section aria-label=${t("operations.due")}><h3>${t("operations.due")}</h3><p>${waiting}</p></section>`;
}

export const changesDialogs = { [t("consolidation.opener")]: Consolidation };
export const dataDialogs = { [t("bring.title")]: Bring };
export const operatorsDialogs = { [t("operations.title")]: Operations };
/** What people decide about it, among the settings. */
export const switches = { review: t("consolidation.switch_review"), review_agent: t("consolidation.switch_review_agent") };
export const AboveChanges = Proposals;
