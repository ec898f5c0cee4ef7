// Taking everything along, bringing it back, and being forgotten.

import { importAll } from "./importing.js";
import { html, useState } from "./lib/preact.js";
import { Dialog, useAct } from "./parts.js";
import { Problem } from "./text.js";
import { filled, t } from "./texts.js";
import { titleOf } from "./words.js";

const DONE = {
  create: t("data.done_create"),
  append: t("data.done_append"),
  keep: t("data.done_keep"),
  same: t("data.done_same"),
};

// What an import did with conversations and proposals.
const COUNTED = {
  created: (count) => t("data.import_created", { count }),
  there: (count) => t("data.import_there", { count }),
  left_out: (count) => t("data.import_left_out", { count }),
  proposals: (count) => t("data.import_proposals", { count }),
};

/** What was deleted, for people: everything but conversations and files was made of them. */
function deletedLines({ conversations = 0, memories = 0 }) {
  return [t("data.threads", { count: conversations }), t("data.memories", { count: memories }), t("data.others")];
}

// What stays after one was forgotten, by what the server calls it.
const KEPT = { time: t("data.kept_time"), traces: t("data.kept_traces"), groups: t("data.kept_groups"), shared: t("data.kept_shared") };


export function Data({ session, onForgotten }) {
  const { client, memory, me } = session;
  const [imported, setImported] = useState(null);
  const [isForgetting, setForgetting] = useState(false);
  const [problem, act] = useAct();
  const download = act(async () => {
    const url = URL.createObjectURL(await (await client.send("GET", "/memory/export")).blob());
    Object.assign(document.createElement("a"), { href: url, download: "memory.json" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  });
  const merge = act(async ({ target }) => {
    const text = await target.files[0].text();
    target.value = ""; // the same file may be chosen again
    setImported(await importAll(memory, JSON.parse(text)));
  });
  const choose = html`<input type="file" accept=".json,application/json" onChange=${merge} />`;
  return html`<section class="data" aria-label=${t("data.label")}>
    <${Problem} text=${problem} />
    <p class="row"><button onClick=${download}>${t("data.export")}</button>
      ${me.own_memory && html`<label class="button">${t("data.import")}${choose}</label>`}
      <button class="danger" aria-hidden=${isForgetting} onClick=${() => setForgetting(true)}>${t("data.forget_me")}</button></p>
    ${imported && html`<${Imported} memory=${memory} done=${imported} onClose=${() => setImported(null)} />`}
    ${isForgetting &&
    html`<${Forget} session=${session} onForgotten=${onForgotten} onClose=${() => setForgetting(false)} />`}
  </section>`;
}

/** What an import did. Its changes are in the list of memory, too, each with its Undo. */
function Imported({ memory, done: { files, ...counts }, onClose }) {
  const line = ([name, count]) => count > 0 && html`<p key=${name}>${COUNTED[name](count)}</p>`;
  const file = ({ path, action }) => html`<article key=${path}><h3 dir="auto">${titleOf(memory, path)}</h3>
    <p class="quiet">${path}</p><p class="quiet">${DONE[action] ?? action}</p></article>`;
  return html`<${Dialog} title=${t("data.imported")} onClose=${onClose}>
    <p>${t("data.nothing_lost")}</p>${Object.entries(counts).map(line)}${files.map(file)}
  <//>`;
}

/** Deleting everything, once the person has typed who they are. */
function Forget({ session: { client, me }, onForgotten, onClose }) {
  const [typed, setTyped] = useState("");
  const [told, setTold] = useState(null);
  const [problem, act, isBusy] = useAct();
  const forget = act(async () => {
    setTold(await client.json("DELETE", "/memory"));
    onForgotten();
  });
  const type = ({ target }) => setTyped(target.value);
  const title = t(told ? "data.forgotten" : "data.forget_title");
  const done = () => html`<h3>${t("data.deleted")}</h3><ul>${deletedLines(told.deleted).map((line) => html`<li>${line}</li>`)}</ul>
    <h3>${t("data.stays")}</h3><ul>${told.stays.map((what) => html`<li>${KEPT[what]}</li>`)}</ul>`;
  const asked = () => html`
    <p>${t("data.forget_about")}</p>
    <form class="editor" onSubmit=${forget}>
      <p>${filled("data.forget_type", { identity: html`<b>${me.user_id}</b>` })}</p>
      <label>${t("data.identity")}<input value=${typed} autocomplete="off" onInput=${type} /></label>
      <${Problem} text=${problem} />
      <p class="row"><button class="danger" disabled=${isBusy || typed !== me.user_id}>${t("data.forget_me")}</button></p>
    </form>`;
  return html`<${Dialog} title=${title} onClose=${onClose}>${told ? done() : asked()}<//>`;
}
