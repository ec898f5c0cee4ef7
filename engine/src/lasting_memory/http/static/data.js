// Taking everything along, bringing it back, and being forgotten.

import { html, useState } from "./lib/preact.js";
import { Dialog, useAct } from "./parts.js";
import { Problem, plural } from "./text.js";

const DONE = { create: "is new", append: "got the lines it lacked", keep: "stays as it is", same: "was there" };

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
    setImported((await memory.change("POST", "/memory/import", { body: JSON.parse(text) })).files);
  });
  const choose = html`<input type="file" accept=".json,application/json" onChange=${merge} />`;
  return html`<section class="data" aria-label="Your data">
    <${Problem} text=${problem} />
    <p class="row"><button onClick=${download}>Export</button>
      ${!me.routes["/memories/"].shared && html`<label class="button">Import${choose}</label>`}
      <button class="danger" aria-hidden=${isForgetting} onClick=${() => setForgetting(true)}>Forget me</button></p>
    ${imported && html`<${Imported} files=${imported} onClose=${() => setImported(null)} />`}
    ${isForgetting &&
    html`<${Forget} session=${session} onForgotten=${onForgotten} onClose=${() => setForgetting(false)} />`}
  </section>`;
}

/** What an import did. Its changes are in the list of memory, too, each with its Undo. */
function Imported({ files, onClose }) {
  const file = ({ path, action }) => html`<article key=${path}><h3>${path}</h3>
    <p class="quiet">${DONE[action] ?? action}</p></article>`;
  return html`<${Dialog} title="What was imported" onClose=${onClose}>
    <p>Nothing was taken away.</p>${files.map(file)}
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
  const counted = ([what, count]) => html`<li>${plural(count, what.replace(/s$/, "").replaceAll("_", " "))}</li>`;
  const title = told ? "You are forgotten" : "Everything of yours is deleted, for good";
  const done = () => html`<h3>Deleted</h3><ul>${Object.entries(told.deleted).map(counted)}</ul>
    <h3>What stays</h3><ul>${told.kept.map((text) => html`<li>${text}</li>`)}</ul>`;
  const asked = () => html`
    <p>Your files with their history, your conversations, and whatever was made of them. Nobody can bring it back;
      export it first if you may want it again.</p>
    <form class="editor" onSubmit=${forget}>
      <p>Type <b>${me.user_id}</b> to go on.</p>
      <label>Identity<input value=${typed} autocomplete="off" onInput=${type} /></label>
      <${Problem} text=${problem} />
      <p class="row"><button class="danger" disabled=${isBusy || typed !== me.user_id}>Forget me</button></p>
    </form>`;
  return html`<${Dialog} title=${title} onClose=${onClose}>${told ? done() : asked()}<//>`;
}
