// One's conversations: the newest first, opened, removed, searched by what was said.

import { html, useState } from "./lib/preact.js";
import { Dialog, pause, useAct, useAsked } from "./parts.js";
import { Problem, plain, plural, when } from "./text.js";

const PAGE = 40;
const TITLE_CHARS = 80;
const SEARCH_AFTER_MILLISECONDS = 400;
const SHOWN = { select: ["thread_id", "updated_at", "metadata"], extract: { title: "values.messages[0].content" } };

/** What a conversation was renamed to, or was said first in it. */
const titled = ({ metadata, extracted }) =>
  String(metadata?.title ?? plain(extracted?.title)).trim().slice(0, TITLE_CHARS) || "(nothing said yet)";

export function Conversations({ session: { client, me }, current, version, onOpen }) {
  const [count, setCount] = useState(PAGE);
  const [query, setQuery] = useState("");
  const [leaving, setLeaving] = useState(null);
  const [removed, setRemoved] = useState([]); // ids of those that are being removed, and are not shown any more
  const [refusal, act] = useAct();
  // One search for each agent; together they are as many as are asked for, or fewer where there are no more.
  const ask = (signal) => async (agent) => {
    const body = { metadata: { graph_id: agent, user_id: me.user_id, org_id: me.org_id }, limit: count, ...SHOWN };
    return client.json("POST", "/threads/search", { body, signal });
  };
  const newest = (a, b) => (a.updated_at < b.updated_at ? 1 : -1);
  const list = useAsked(async (signal) => {
    const found = (await Promise.all(me.agents.map(ask(signal)))).flat();
    return found.toSorted(newest).slice(0, count);
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
    const [id, title] = [thread.thread_id, titled(thread)];
    return html`<li key=${id} class=${id === current ? "current" : ""}>
      <button class="open" aria-label=${`Open: ${title}`} aria-current=${id === current ? "true" : undefined}
        onClick=${() => onOpen(id)}>${title}</button>
      <p class="quiet">${when(thread.updated_at)}${thread.metadata?.temporary ? ", temporary" : ""}
        <button class="small" aria-label=${`Remove: ${title}`} onClick=${() => setLeaving(thread)}>Remove</button></p>
    </li>`;
  };
  const older = html`<button class="wide" onClick=${() => setCount(count + PAGE)}>Show older</button>`;
  const isThere = ({ thread_id: id }) => !removed.includes(id);
  const all = (threads) => html`<ul aria-label="Conversations">${threads.filter(isThere).map(entry)}</ul>
    ${threads.length >= count && older}`;
  return html`<nav class="conversations" aria-label="Your conversations">
    <button class="main wide" onClick=${() => onOpen(null)}>New conversation</button>
    <label class="unseen" for="search">Search past conversations</label>
    <input id="search" type="search" placeholder="Search what was said"
      onInput=${({ target }) => setQuery(target.value.trim())} />
    <${Problem} text=${refusal || search.problem || list.problem} />
    ${query && search.told ? html`<${Found} ...${search.told} onOpen=${onOpen} />` : all(list.told ?? [])}
    ${leaving && html`<${Dialog} title="Remove this conversation?" onClose=${() => setLeaving(null)}>
      <p>${titled(leaving)}</p>
      <p>It cannot be brought back. What was remembered from it stays.</p>
      <p class="row"><button class="danger" onClick=${remove}>Remove it</button></p>
    <//>`}
  </nav>`;
}

function Found({ conversations, searched, outstanding, onOpen }) {
  const counts = `${plural(conversations.length, "match", "matches")} in ${plural(searched, "conversation")}`;
  const more = outstanding ? "; older ones are still being read, search again" : "";
  const found = ({ thread_id: id, updated_at: at, turns }) => html`<li key=${id}>
    <button class="open" onClick=${() => onOpen(id)}>${when(at)}</button>
    ${turns.map(({ speaker, text }) => html`<p class="excerpt"><b>${speaker}</b> ${text}</p>`)}
  </li>`;
  return html`<p class="quiet" role="status">${counts}${more}</p>
    <ul aria-label="Found">${conversations.map(found)}</ul>`;
}
