// Taking everything along, bringing it back, and being forgotten.

import { html, useState } from "./lib/preact.js";
import { Dialog, useAct } from "./parts.js";
import { Diff, Problem, plural } from "./text.js";

const ADDED = { create: "is new", append: "gets the lines it lacks" };
const KEPT = { keep: "stays as it is", same: "is the same already" };

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
  const rehearse = act(async ({ target }) => {
    const text = await target.files[0].text();
    target.value = ""; // the same file may be chosen again
    const body = JSON.parse(text);
    setImported({ body, files: (await client.json("POST", "/memory/import", { body })).files });
  });
  const choose = html`<input type="file" accept=".json,application/json" onChange=${rehearse} />`;
  return html`<section class="data" aria-label="Your data">
    <${Problem} text=${problem} />
    <p class="row"><button onClick=${download}>Export</button>
      ${me.memory_scope !== "assistant" && html`<label class="button">Import${choose}</label>`}
      <button class="danger" aria-hidden=${isForgetting} onClick=${() => setForgetting(true)}>Forget me</button></p>
    ${imported && html`<${Merge} memory=${memory} ...${imported} onClose=${() => setImported(null)} />`}
    ${isForgetting &&
    html`<${Forget} session=${session} onForgotten=${onForgotten} onClose=${() => setForgetting(false)} />`}
  </section>`;
}

/** What an import would do, and doing it. */
function Merge({ memory, body, files, onClose }) {
  const [problem, act] = useAct();
  const isEmpty = !files.some(({ action }) => action in ADDED);
  const query = { dry_run: "false" };
  const merge = act(() => memory.change("POST", "/memory/import", { query, body }).then(onClose));
  const file = ({ path, action, diff }) => html`<article key=${path}><h3>${path}</h3>
    <p class="quiet">${ADDED[action] ?? KEPT[action] ?? action}</p>${diff && html`<${Diff} text=${diff} />`}</article>`;
  return html`<${Dialog} title="What this would add" problem=${problem} onClose=${onClose}>
    <p>Nothing is taken away, and nothing is written yet.
      ${isEmpty && " There is nothing to add: all of it is here already."}</p>
    ${!isEmpty && html`<p class="row"><button class="main" onClick=${merge}>Add to what it knows</button></p>`}
    ${files.map(file)}
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
