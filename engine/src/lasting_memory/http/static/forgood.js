// Deleting one fact for good, and what becomes of the conversations that it came from.

import { LISTED, saidFirst, titled } from "./conversations.js";
import { html, useState } from "./lib/preact.js";
import { Dialog, useAct, useAsked } from "./parts.js";
import { Problem } from "./text.js";
import { t } from "./texts.js";

/** `text` is a line of the file, as facts and trash have it. `onDone` is called once it is deleted. */
export function ForGood({ session: { client, memory }, path, text, onDone, onClose }) {
  const [chosen, setChosen] = useState([]); // ids of the conversations to delete, too
  const [refused, act, isBusy] = useAct();
  const { told: conversations, problem } = useAsked(async (signal) => {
    const asked = { query: { path, dry_run: "true" }, body: { text }, signal };
    const { conversations: ids } = await client.json("DELETE", "/memory/fact", asked);
    if (!ids.length) return [];
    const threads = await client.json("POST", "/threads/search", { body: { ids, limit: ids.length, select: LISTED }, signal });
    const untitled = threads.filter(({ metadata }) => !metadata?.title).map(({ thread_id: id }) => id);
    const said = await saidFirst(client, untitled, signal);
    return threads.map((thread) => ({ ...thread, title: titled(thread, said.get(thread.thread_id)) }));
  }, [path, text]);
  const remove = act(async () => {
    const body = { text, conversations: chosen };
    await memory.change("DELETE", "/memory/fact", { query: { path }, body }, path);
    (onDone ?? onClose)();
  });
  const choose = (id) => ({ target }) =>
    setChosen((ids) => (target.checked ? [...ids, id] : ids.filter((other) => other !== id)));
  const conversation = (thread) => {
    const { thread_id: id, title } = thread;
    return html`<li key=${id}><label class="switch"><input type="checkbox" checked=${chosen.includes(id)} onChange=${choose(id)} />
      ${t("for_good.conversation", { title })}</label></li>`;
  };
  return html`<${Dialog} title=${t("for_good.title")} problem=${problem} onClose=${onClose}>
    <p class="fact">${text}</p>
    <p>${t("for_good.about")}</p>
    ${!conversations && !problem && html`<p class="quiet" role="status">${t("for_good.looking")}</p>`}
    ${conversations?.length > 0 && html`<p>${t("for_good.conversations_about")}</p>
      <ul aria-label=${t("for_good.conversations")}>${conversations.map(conversation)}</ul>`}
    <${Problem} text=${refused} />
    <p class="row"><button class="danger" disabled=${isBusy || !conversations} onClick=${remove}>${t("for_good.delete")}</button></p>
  <//>`;
}
