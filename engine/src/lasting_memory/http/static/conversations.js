// One's conversations: the newest first, opened, removed, searched by what was said.

import { attachedTo, ownWords } from "./attachments.js";
import { html, useRef, useState } from "./lib/preact.js";
import { Dialog, pause, useAct, useAsked, useGrowing } from "./parts.js";
import { Problem, Turn, plain, when } from "./text.js";
import { t } from "./texts.js";

const PAGE = 40;
const TITLE_CHARS = 80;
const SEARCH_AFTER_MILLISECONDS = 400;
// What was said first, without pictures: of a list of blocks the first one's text. That of a text is asked for by itself.
const BLOCK = {
  type: "values.messages[0].content[0].type",
  text: "values.messages[0].content[0].text",
  attachments: "values.messages[0].additional_kwargs.attachments",
};
const TEXT = { content: "values.messages[0].content" };
export const LISTED = ["thread_id", "updated_at", "metadata"];

/** What a message is called in a list: by its words, or by what is attached to it. */
export function titleOf(message) {
  const words = plain(ownWords(message)).trim();
  const names = attachedTo(message).map(({ name }) => name).filter(Boolean);
  return (words || names.join(", ")).slice(0, TITLE_CHARS);
}

/** A conversation's title: the server's, or what it was renamed to; `said` is what was said first in an older one. */
export const titled = ({ metadata }, said = "") =>
  String(metadata?.title ?? said).trim().slice(0, TITLE_CHARS) || t("conversations.nothing_said");

/** What was said first in these conversations, by id. They are older than titles are. */
export async function saidFirst(client, ids, signal) {
  const said = new Map();
  if (!ids.length) return said;
  const ask = (of, extract) =>
    client.json("POST", "/threads/search", { body: { ids: of, limit: of.length, select: ["thread_id"], extract }, signal });
  const texts = [];
  for (const { thread_id: id, extracted } of await ask(ids, BLOCK)) {
    const { type, text, attachments } = extracted ?? {};
    if (type) said.set(id, titleOf({ content: [{ type, text }], additional_kwargs: { attachments } }));
    else texts.push(id);
  }
  for (const { thread_id: id, extracted } of texts.length ? await ask(texts, TEXT) : []) said.set(id, titleOf(extracted ?? {}));
  return said;
}

/** When something was said in it last, and what is special about it. */
function marked({ updated_at: at, metadata }) {
  if (metadata?.imported) return t("conversations.imported", { when: when(metadata.imported_ended ?? at) });
  return metadata?.temporary ? t("conversations.temporary", { when: when(at) }) : when(at);
}

export function Conversations({ session: { client, me }, current, title, version, onOpen }) {
  const [count, setCount] = useState(PAGE);
  const [shown, grew] = useGrowing();
  const [query, setQuery] = useState("");
  const [leaving, setLeaving] = useState(null);
  const [removed, setRemoved] = useState([]); // ids of those that are being removed, and are not shown any more
  const [refusal, act] = useAct();
  // One search for each agent; together they are as many as are asked for, or fewer where there are no more.
  const ask = (signal) => async (agent) => {
    const body = { metadata: { graph_id: agent, user_id: me.user_id, org_id: me.org_id }, limit: count, select: LISTED };
    return client.json("POST", "/threads/search", { body, signal });
  };
  const newest = (a, b) => (a.updated_at < b.updated_at ? 1 : -1);
  const titles = useRef(new Map()); // what was said first, by conversation: once it is known, it is not asked for again
  const learnTitles = async (threads, signal) => {
    const ids = threads.map(({ thread_id: id }) => id).filter((id) => !titles.current.has(id));
    for (const [id, said] of await saidFirst(client, ids, signal)) if (said) titles.current.set(id, said);
  };
  if (current && title) titles.current.set(current, title);
  const listed = (thread) => titled(thread, titles.current.get(thread.thread_id));
  const list = useAsked(async (signal) => {
    const found = (await Promise.all(me.agents.map(ask(signal)))).flat();
    const threads = found.toSorted(newest).slice(0, count);
    await learnTitles(threads.filter(({ metadata }) => !metadata?.title), signal);
    return threads;
  }, [version, count]);
  const search = useAsked(async (signal) => {
    if (query) await pause(SEARCH_AFTER_MILLISECONDS);
    return query && !signal.aborted ? client.json("GET", "/memory/search", { query: { q: query }, signal }) : null;
  }, [query]);
  const remove = act(async () => {
    const { thread_id: id } = leaving;
    setLeaving(null);
    setRemoved((ids) => [...ids, id]);
    try {
      await client.send("DELETE", `/threads/${id}`);
    } catch (error) {
      setRemoved((ids) => ids.filter((other) => other !== id));
      throw error;
    }
    if (id === current) onOpen(null);
    list.again();
  });
  const entry = (thread) => {
    const [id, title] = [thread.thread_id, listed(thread)];
    return html`<li key=${id} class=${id === current ? "current" : ""}>
      <button class="open" dir="auto" aria-label=${t("conversations.open", { title })} aria-current=${id === current ? "true" : undefined}
        onClick=${() => onOpen(id)}>${title}</button>
      <p class="quiet">${marked(thread)}
        <button class="small" aria-label=${t("conversations.remove_title", { title })} onClick=${() => setLeaving(thread)}>${t("conversations.remove")}</button></p>
    </li>`;
  };
  const older = html`<button class="wide" onClick=${() => (grew(count), setCount(count + PAGE))}>${t("conversations.older")}</button>`;
  const isThere = ({ thread_id: id }) => !removed.includes(id);
  const all = (threads) => html`<ul aria-label=${t("conversations.list")} ref=${shown}>${threads.filter(isThere).map(entry)}</ul>
    ${threads.length >= count && older}`;
  return html`<nav class="conversations" aria-label=${t("conversations.label")}>
    <h2>${t("page.place_list")}</h2>
    <button class="main wide" onClick=${() => onOpen(null)}>${t("conversations.new")}</button>
    <label class="unseen" for="search">${t("conversations.search")}</label>
    <input id="search" type="search" dir="auto" placeholder=${t("conversations.search_hint")}
      onInput=${({ target }) => setQuery(target.value.trim())} />
    <${Problem} text=${refusal || search.problem || list.problem} />
    ${query && search.told ? html`<${Found} ...${search.told} onOpen=${onOpen} />` : all(list.told ?? [])}
    ${leaving && html`<${Dialog} title=${t("conversations.remove_question")} onClose=${() => setLeaving(null)}>
      <p dir="auto">${listed(leaving)}</p>
      <p>${t("conversations.remove_about")}</p>
      <p class="row"><button class="danger" onClick=${remove}>${t("conversations.remove_it")}</button></p>
    <//>`}
  </nav>`;
}

function Found({ conversations, searched, outstanding, onOpen }) {
  const matches = t("conversations.matches", { count: conversations.length });
  const counts = t("conversations.searched", { matches, count: searched });
  const more = outstanding ? t("conversations.outstanding") : "";
  const found = ({ thread_id: id, updated_at: at, turns }) => html`<li key=${id}>
    <button class="open" onClick=${() => onOpen(id)}>${when(at)}</button>
    ${turns.map((turn) => html`<${Turn} of=${turn} />`)}
  </li>`;
  return html`<p class="quiet" role="status">${counts}${more}</p>
    <ul aria-label=${t("conversations.found")}>${conversations.map(found)}</ul>`;
}
